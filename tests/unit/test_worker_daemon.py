"""The daemon of Spark's workers may fork only while it is alone."""

from __future__ import annotations

import subprocess
import sys

LOADED = """
from towpath.flow.worker_daemon import is_alone, load
load()
print(is_alone())
"""
NOT_ALONE = """
import threading
from towpath.flow.worker_daemon import is_alone
print(is_alone())
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(is_alone())
"""


def said_by(program: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120
    ).stdout.split()


def test_loading_starts_no_thread() -> None:
    assert said_by(LOADED) == ["True"]


def test_a_thread_is_noticed() -> None:
    assert said_by(NOT_ALONE) == ["True", "False"]
