"""What counts as an arrival, and what a batch has read of its ranges: the rules, in one place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from towpath.flow.audit.spans import uncovered
from towpath.flow.positions import Range
from towpath.flow.topics import FlowTopics


def is_arrival(flow: str, topic: str) -> bool:
    """What comes back from the desk arrived before: it settles an earlier failure and is no new record."""
    return topic != FlowTopics.of(flow).reentry


def readable(ranges: Iterable[Range], gaps: Iterable[Range]) -> Iterator[Range]:
    """What was left of some ranges when they were read: gaps had been deleted by then."""
    known = list(gaps)
    for each in ranges:
        yield from uncovered(each, known) if known else (each,)
