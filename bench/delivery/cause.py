"""What an error of Spark is about."""

from __future__ import annotations

import re

_CAUSE = re.compile(r"^[\w.]*(?:Error|Exception|Fault|Refused|Timeout)\b.*", re.MULTILINE)


def cause_of(text: str) -> str:
    """The last line that names an error: Spark tells the errors of workers with a trace before and a plan behind."""
    lines: list[str] = _CAUSE.findall(text)
    return lines[-1] if lines else text.partition("\n")[0]
