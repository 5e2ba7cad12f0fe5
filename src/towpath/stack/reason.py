"""Why a server did not start, as far as what it wrote tells."""

from __future__ import annotations

import re

LINES_SHOWN = 4
LINE_LENGTH = 300
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_TELLING = re.compile(r"FATAL|ERROR|PANIC|[Ee]xception|[Ee]rror:|Address already in use|OutOfMemory|not permitted")
# News of other kinds, and the places of a Java trace.
_HARMLESS = re.compile(r"\bINFO\b|\bDEBUG\b|^at ")


def reason(written: str) -> str:
    """The few lines of a long text that say what is wrong; its last ones when none seems to."""
    lines = [line.strip() for line in written.splitlines() if line.strip()]
    if any(map(_FULL.search, lines)):
        return "the disk is full; make room, then start it again"
    telling = [line for line in lines if _TELLING.search(line) and not _HARMLESS.search(line)]
    shown = telling[:LINES_SHOWN] or lines[-LINES_SHOWN:]
    return "\n".join(line[:LINE_LENGTH] for line in shown) or "it wrote nothing"
