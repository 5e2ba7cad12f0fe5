"""`towpath …` as real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TOWPATH = (sys.executable, "-m", "towpath")
TIMEOUT_S = 200


def run(*words: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """`towpath …` as a process, to its end."""
    command = [*TOWPATH, *map(str, words)]
    return subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False, **options)


@contextmanager
def sigint(disposition: Any = signal.default_int_handler) -> Iterator[None]:
    """What SIGINT does to the processes that are started inside; otherwise they would inherit it.

    Below a shell's background job it is ignored (`signal.SIG_IGN`), and a test that sends it would wait for ever.
    """
    before = signal.signal(signal.SIGINT, disposition)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def started(
    *words: object, inherited: Any = signal.default_int_handler, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """`towpath …` as a process that is gone when the block ends; `inherited` is what SIGINT does at its start."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    with sigint(inherited):
        process = subprocess.Popen([*TOWPATH, *map(str, words)], **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()
