"""Times and ages as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from towpath.cli.failures import UsageError

_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
NEVER = "never"


def is_age(text: str) -> bool:
    return _AGE.fullmatch(text) is not None


def parse_age_s(text: str, option: str) -> float | str:
    """`90s`, `15m`, `12h`, `7d`, or `never`."""
    if text == NEVER:
        return NEVER
    found = _AGE.fullmatch(text)
    if not found or float(found[1]) == 0:
        raise UsageError(f"{option} {text!r} is not an age such as 90s, 15m, 12h or 7d, or {NEVER}")
    return float(found[1]) * _SECONDS[found[2]]


def parse_time_ms(text: str, option: str, now_ms: int) -> int:
    """An age (`15m`: so long ago), a date or time of ISO 8601 (UTC unless it says otherwise), or milliseconds."""
    if text.isascii() and text.isdigit():
        return int(text)
    if found := _AGE.fullmatch(text):
        return max(0, now_ms - round(float(found[1]) * _SECONDS[found[2]] * 1000))
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is not a time such as 2026-01-31T10:00:00Z, 2026-01-31 or 15m (ago)"
        ) from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0, int(at.timestamp() * 1000))


def age_text(seconds: float | None) -> str:
    """An age as it would be typed."""
    if seconds is None:
        return NEVER
    for unit in ("d", "h", "m"):
        if seconds >= _SECONDS[unit] and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:g}{unit}"
    return f"{seconds:g}s"


def shown_time(timestamp_ms: int) -> str:
    """A record's time in UTC to the millisecond; a number where no calendar has it."""
    try:
        return f"{datetime.fromtimestamp(timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}"
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
