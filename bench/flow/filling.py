"""Puts the events into a topic."""

from __future__ import annotations

from bench.flow.workload import PARTITIONS, values
from towpath.log import Log, NewRecord

AT_ONCE = 20_000


def fill(log: Log, topic: str, events: int, *, is_bad: bool = False) -> None:
    log.create_topic(topic, PARTITIONS)
    made: list[NewRecord] = []
    for number, value in enumerate(values(events, is_bad=is_bad)):
        made.append(NewRecord(value, b"%d" % number, partition=number % PARTITIONS))
        if len(made) == AT_ONCE:
            log.append(topic, made)
            made = []
    if made:
        log.append(topic, made)
