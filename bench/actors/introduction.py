"""What stands above the table: what the figures mean."""

from __future__ import annotations

from bench.actors.lines import AT_ONCE


def introduction(rounds: int, kills: int, herds: int, watch_s: float) -> str:
    return " ".join([*_transitions(rounds), *_takeover(kills), *_sleepers(herds, watch_s)])


def _transitions(rounds: int) -> list[str]:
    return [
        "Transitions are states of runs of five states that do nothing, in one process:",
        f"the median of {rounds} rounds in turns, in brackets the least and the most, each with a new database;",
        "the ratio is the median of the rounds' ratios.",
        f"At once means that {AT_ONCE} runs are at work at any time on either side.",
        f"For Towpath these are {AT_ONCE} instances, whose starts lie in the queue when the clock begins;",
        "letting them in, claiming, the end and its clean-up are in its time.",
        "For DBOS they are as many threads, each calling one workflow after the other;",
        "the write of their starts is in its time, so a row shows Towpath with the writing of its starts, too.",
        "One at a time: the next run is started when the result of the one before is here.",
        "After each turn it is checked that every state is written down, with the durability that is named.",
    ]


def _takeover(kills: int) -> list[str]:
    return [
        f"Going on: of two hosts one is killed in the middle of a state that says RETRY, {kills} times;",
        "the time is from the kill to the first line of that state's code in the other process.",
    ]


def _sleepers(herds: int, watch_s: float) -> list[str]:
    return [
        f"Sleepers: all sleep for an hour. The CPU is that of the host's process during {watch_s:g} s, by the kernel.",
        "Then the database's clock is set so that all are due at once, the host is killed when it has begun with them,",
        "another one begins, and the time is from the kill until it has run and committed every one.",
        "When all sleep again, claims of ten take turns with those in a database without sleepers.",
        f"All of this {herds} times.",
    ]
