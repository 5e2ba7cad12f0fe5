"""How Spark's Java process has ended."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

from towpath.spark.java import how_java_ended


def session_of(process: subprocess.Popen[bytes]) -> Any:
    """As far as it is asked: a session that has started a program."""
    return SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=process)))


def test_one_that_is_about_to_end_is_waited_for() -> None:
    """Java refuses connections a moment before its end is there to be seen."""
    with subprocess.Popen([sys.executable, "-c", "input(); raise SystemExit(3)"], stdin=subprocess.PIPE) as dying:
        assert how_java_ended(session_of(dying)) is None
        assert how_java_ended(session_of(dying), 0.1) is None
        assert dying.stdin is not None
        dying.stdin.write(b"\n")
        dying.stdin.flush()
        assert how_java_ended(session_of(dying), 60) == "ended with exit code 3"
    with subprocess.Popen(["sleep", "600"]) as killed:
        killed.kill()
        assert how_java_ended(session_of(killed), 60) == "was ended by SIGKILL"
