"""Looking for the records on which a batch fails as a whole, by trying parts of it. Pure: `fails` does the trying.

Each round cuts a failing part into sixteen and tries them one after the other. It is the last resort, because each try
is a Spark job; so it is bounded by the number of records to find and by time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from towpath.flow.positions import Range

PARTS = 16

Fails = Callable[[Range], bool]
IsOver = Callable[[], bool]


@dataclass(slots=True)
class Found:
    """Single offsets that fail alone, and ranges that were not searched to their end."""

    records: list[Range] = field(default_factory=list)
    unsearched: list[Range] = field(default_factory=list)


def search(ranges: Sequence[Range], fails: Fails, most: int, is_over: IsOver) -> Found:
    """The records of these ranges that fail when they are tried alone.

    A range that fails while none of its parts does, tried alone, is no record's fault: it is not found.
    """
    found = Found()
    waiting = [each for each in ranges if not each.is_empty]
    while waiting:
        part = waiting.pop(0)
        if len(found.records) >= most or is_over():
            found.unsearched += [part, *waiting]
            break
        if not fails(part):
            continue
        if part.stop - part.start == 1:
            found.records.append(part)
        else:
            waiting[:0] = cut(part)
    return found


def cut(part: Range, parts: int = PARTS) -> list[Range]:
    """The range in up to so many pieces, of nearly equal length."""
    length = part.stop - part.start
    bounds = [part.start + length * at // parts for at in range(parts + 1)]
    return [part._replace(start=a, stop=b) for a, b in pairwise(bounds) if a < b]
