"""The rows of the table."""

from __future__ import annotations

from enum import StrEnum

from bench import line
from bench.line import Line
from bench.supervision import goals

WATCHED = 200


class Part(StrEnum):
    """What can be measured alone."""

    DEATHS = "deaths"
    COORDINATOR = "coordinator"
    LOAD = "load"
    WATCH = "watch"


class Measure(line.Measure):
    """One thing that is done and timed."""

    EXIT = "noticed by exit"
    EXIT_BACK = "back after exit"
    SILENCE = "noticed by silence"
    SILENCE_BACK = "back after silence"
    COORDINATOR = "new coordinator"
    MISTAKES = "restarts by mistake"
    WATCHING = "watching"

    @property
    def is_time(self) -> bool:
        return self not in (Measure.MISTAKES, Measure.WATCHING)


def lines(parts: tuple[Part, ...], minutes: float, watched: int = WATCHED) -> list[Line]:
    """All rows of these parts."""
    m = Measure
    defaults = "SQLite, three peers, defaults"
    every = [
        Line(Part.DEATHS, "SIGKILL to noticed", defaults, m.EXIT, goal=goals.within(goals.EXIT_WITHIN_S)),
        Line(Part.DEATHS, "noticed to back at work", defaults, m.EXIT_BACK, goal=goals.within(goals.BACK_WITHIN_S)),
        Line(Part.DEATHS, "SIGSTOP to noticed", defaults, m.SILENCE, goal=goals.within(goals.SILENCE_WITHIN_S)),
        Line(Part.DEATHS, "that to back at work", defaults, m.SILENCE_BACK, goal=goals.within(goals.BACK_WITHIN_S)),
        Line(
            Part.COORDINATOR,
            "SIGKILL of the coordinator to the next one's term",
            defaults,
            m.COORDINATOR,
            goal=goals.within(goals.COORDINATOR_WITHIN_S),
        ),
        Line(
            Part.LOAD,
            f"restarts by mistake in {minutes:g} minutes, two busy loops for each core",
            defaults,
            m.MISTAKES,
            goal=goals.none_by_mistake(),
        ),
        Line(Part.WATCH, f"a coordinator that watches {watched}", "SQLite", m.WATCHING, goal=goals.watching()),
    ]
    return [row for row in every if row.part in parts]
