"""When a schedule is due, as people type it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import UsageError

if TYPE_CHECKING:
    from towpath.actors.schedule_rhythm import Rhythm

Every = Annotated[str | None, typer.Option(metavar="AGE", help="Every so often: 90s, 15m, 12h or 7d.")]
Since = Annotated[
    str | None,
    typer.Option(metavar="made|run", help="With --every: counted from when it was made, or from its last run; `made`."),
]
Daily = Annotated[str | None, typer.Option(metavar="HH:MM", help="Every day at this time.")]
Window = Annotated[
    str | None, typer.Option(metavar="FROM-TO", help="Once between these hours, such as 22-6; over midnight too.")
]
Zone = Annotated[
    str | None, typer.Option(metavar="ZONE", help="Whose clock, with --daily and --window: Europe/Berlin; else UTC.")
]

_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})")
_HOURS = re.compile(r"([0-9]{1,2})-([0-9]{1,2})")


def rhythm_of(
    every: str | None, since: str | None, daily: str | None, window: str | None, zone: str | None
) -> Rhythm | None:
    """What the options say; none when they say nothing."""
    from towpath.actors import schedule_rhythm as rhythms

    if sum(each is not None for each in (every, daily, window)) > 1:
        raise UsageError("--every, --daily and --window: only one of them")
    if since is not None and (every is None or since not in tuple(rhythms.Since)):
        raise UsageError(f"--since {since}: say `made` or `run`, together with --every")
    if zone is not None and daily is None and window is None:
        raise UsageError("--zone goes with --daily or --window")
    if every is not None:
        return rhythms.Interval(_seconds(every), rhythms.Since(since or rhythms.Since.MADE))
    if daily is not None:
        hour, minute = _numbers(_CLOCK, daily, "--daily", "a time such as 03:30")
        return rhythms.Daily(hour, minute, zone or "UTC")
    if window is not None:
        first, last = _numbers(_HOURS, window, "--window", "two hours such as 22-6")
        return rhythms.Window(first, last, zone or "UTC")
    return None


def _seconds(every: str) -> float:
    from towpath.cli.topic_times import parse_age_s

    seconds = parse_age_s(every, "--every")
    if isinstance(seconds, str):
        raise UsageError("--every never: leave the schedule away, or disable it")
    return seconds


def _numbers(pattern: re.Pattern[str], text: str, option: str, what: str) -> tuple[int, int]:
    found = pattern.fullmatch(text)
    if found is None:
        raise UsageError(f"{option} {text!r} is not {what}")
    return int(found[1]), int(found[2])
