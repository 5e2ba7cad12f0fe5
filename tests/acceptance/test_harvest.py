"""`python -m examples.harvest`: the one command, for real, and what can be asked of it afterwards."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from examples.harvest.home import Home
from examples.harvest.oracle import Oracle
from examples.harvest.rows import documents_in
from examples.harvest.search import check_index
from examples.harvest.web.sites import small_web

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 900  # a minute and a half on a machine with nothing else to do


def harvest(home: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "examples.harvest", *arguments, "--home", str(home)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.part("guides")
@pytest.mark.timeout(TIMEOUT_S + 20)
def test_the_whole_example(tmp_path: Path) -> None:
    said = harvest(tmp_path)
    oracle = Oracle(small_web())
    oracle.crawl(1)
    oracle.crawl(2)
    home = Home(tmp_path)
    assert documents_in(home.search_file) == oracle.documents
    check_index(home.search_file)
    second = said.partition("day 2:")[2]
    not_modified = sum(map(int, re.findall(r"(\d+) not modified", second)))
    assert not_modified > 20
    assert re.search(rf"^all +{len(oracle.documents)} ", said, re.MULTILINE)
    assert "The new bridge" in harvest(tmp_path, "search", "bridge", "opened")
    assert "nothing" in harvest(tmp_path, "search", "guest", "for", "one", "day")
    sets = harvest(tmp_path, "sets").splitlines()[1:]
    kinds = [(line.split()[1], line.split()[3]) for line in sets]
    assert kinds.count(("crawl", "ready")) == 8
    assert [each for each in kinds if each[0] != "crawl"] == [
        ("documents", "ready"),
        ("index", "deleted"),
        ("documents", "ready"),
        ("index", "ready"),
    ]
    first = next(line.split()[0] for line in sets if "canal.test" in line)
    assert first in harvest(tmp_path, "delete", first)
