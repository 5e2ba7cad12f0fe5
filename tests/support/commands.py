"""`towpath …` as real processes."""

from __future__ import annotations

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
def started(*words: object, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """`towpath …` as a process that is gone when the block ends."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    process = subprocess.Popen([*TOWPATH, *map(str, words)], **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()
