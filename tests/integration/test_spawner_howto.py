"""The examples of the how-to for spawners run as they stand there."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.spawned import CALM, Rig

from towpath.runtime import Runtime

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "spawn-processes.md"
NAMED = re.compile(r"`(\w+\.(?:py|sh))`:\n\n```(?:python|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
UNNAMED = re.compile(r"## See how far it is\n\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page."""
    files = dict(NAMED.findall(PAGE.read_text(encoding="utf-8")))
    assert sorted(files) == ["crawl.py", "press.sh", "press_actors.py", "shop.py", "shop_actors.py"]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_program_prints_the_answer(directory: Path) -> None:
    done = subprocess.run(
        [sys.executable, "shop.py"], capture_output=True, text=True, timeout=100, check=False, cwd=directory
    )
    assert (done.stdout, done.returncode) == ("{'pages': 2}\n", 0), done.stderr
    assert (directory / ".towpath" / "actors" / "crawler-main.log").is_file()


def test_the_command_prints_labels(
    directory: Path,
    make_runtime: Callable[..., Runtime],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rig = Rig(make_runtime(process=CALM), directory / "journal")
    monkeypatch.syspath_prepend(directory)
    press = importlib.import_module("press_actors").Press
    rig.run(press)
    try:
        assert rig.ask(press, "towel").payload == {"printed": 1}
        [look] = UNNAMED.findall(PAGE.read_text(encoding="utf-8"))
        exec(look.replace("crawler", "press"), {"runtime": rig.runtime})
        assert capsys.readouterr().out.rstrip().split()[-1] in ("True", "False")
    finally:
        rig.end()
