"""The program that Spark takes for Python does what Python does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from towpath.testing.quick_python import quick_python

SHOW = """
import os, sys
print(os.getcwd(), os.environ["MINE"], sys.argv[1:], "pyspark.worker" in sys.modules, sys.stdin.read())
print("told", file=sys.stderr)
sys.exit(7)
"""
WAIT = """
import sys
print("here", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def python() -> Iterator[Path]:
    with quick_python(["graphlib"]) as program:
        yield program


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    """A directory in which modules are found, as that in which Python is started."""
    (tmp_path / "show.py").write_text(SHOW)
    (tmp_path / "wait.py").write_text(WAIT)
    return tmp_path


def _show(python: Path | str, directory: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [python, "-m", "show", "one", "two"],
        cwd=directory,
        env={**os.environ, "MINE": "yes", "PYTHONPATH": str(directory)},
        input="a line",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_it_has_the_order_the_files_and_the_end_of_what_it_stands_for(python: Path, shown: Path) -> None:
    """And everything is loaded."""
    assert _show(python, shown) == (7, f"{shown} yes ['one', 'two'] True a line\n", "told\n")


def test_it_is_python_itself_when_there_is_nothing_to_fork_from(shown: Path) -> None:
    with quick_python() as program:
        (program.parent / "socket").unlink()
        assert _show(program, shown) == _show(sys.executable, shown)


def test_who_ends_it_ends_what_it_stands_for(python: Path, shown: Path) -> None:
    """Its output is open as long as one of them lives."""
    environment = {**os.environ, "PYTHONPATH": str(shown)}
    command = [str(python), "-m", "wait"]
    with subprocess.Popen(command, cwd=shown, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as begun:
        assert begun.stdout is not None
        assert begun.stdout.readline() == b"here\n"
        begun.kill()
        assert begun.stdout.read() == b""


def test_a_module_that_is_missing_is_told_at_once() -> None:
    with pytest.raises(RuntimeError, match="ended"), quick_python(["no_such_module_anywhere"]):
        pass
