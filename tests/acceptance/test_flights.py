"""`python -m examples.flights`: the one command, for real, on the embedded default."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from examples.flights.queries import QUERIES

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 600  # a minute on a machine with nothing else to do


@pytest.mark.part("guides")
@pytest.mark.timeout(TIMEOUT_S + 20)
def test_the_whole_example(tmp_path: Path) -> None:
    """It compares all answers with the oracle's, and all cases and books, and says so by its exit code."""
    home = tmp_path / "flights"
    done = subprocess.run(
        [sys.executable, "-m", "examples.flights", "--rows", "1500", "--clients", "2", "--home", str(home)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    rows = re.findall(r"^(client-\d)  (\w+) +([\d,]+) +([\d,]+)$", done.stdout, re.MULTILINE)
    assert [row[:2] for row in rows] == [(f"client-{number}", query) for number in (1, 2) for query in QUERIES]
    assert all(expected == received != "0" for _, _, expected, received in rows)


def test_a_directory_of_somebody_else_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "towpath.toml").write_text("")
    command = [sys.executable, "-m", "examples.flights", "--home", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert (tmp_path / "towpath.toml").exists()
