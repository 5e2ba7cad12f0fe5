"""How the deliveries of a unit are cut into parts, each of which is written in one transaction with its mark.

Where a part ends depends on the sequence of the deliveries alone, not on how they are handed over: a second attempt
cuts at the same places. It need not even cut by the same rule: of a part that is there its mark says how many
deliveries it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from towpath.flow.delivery.marks import PartManifest
from towpath.log.log import Log
from towpath.log.open import KAFKA_PREFIX

# Half of what one transaction of the SQLite log takes at most: others wait for the file meanwhile.
MOST_DELIVERIES = 5_000
MOST_BYTES = 4 << 20


class PartLimits(NamedTuple):
    """What one part holds at most. A single delivery that is larger is a part by itself."""

    deliveries: int = MOST_DELIVERIES
    bytes: int = MOST_BYTES


def limits_of(log: Log) -> PartLimits | None:
    """None: a transaction of Kafka takes a unit whole."""
    return None if log.url.startswith(KAFKA_PREFIX) else PartLimits()


class PartStep(NamedTuple):
    """Some deliveries that follow each other and belong to one part."""

    part: int
    start: int
    stop: int
    is_there: bool  # and need not be written


class TransactionSplitter:
    """Walks along the deliveries of one unit."""

    def __init__(self, found: Mapping[int, PartManifest], limits: PartLimits | None) -> None:
        self.found = found
        self.number = 0
        self.taken = 0  # deliveries of the present part
        self._limits = limits
        self._bytes = 0

    def steps(self, sizes: Sequence[int]) -> Iterator[PartStep]:
        """The next deliveries, of these sizes."""
        at = 0
        while at < len(sizes):
            stop = self._stop(sizes, at)
            if stop == at:
                self.number, self.taken, self._bytes = self.number + 1, 0, 0
                continue
            self.taken += stop - at
            yield PartStep(self.number, at, stop, self.number in self.found)
            at = stop

    @property
    def last(self) -> int | None:
        """The part that is left to be written when nothing more comes. A unit without deliveries has one too."""
        is_begun = self.taken > 0 or self.number == 0
        return self.number if is_begun and self.number not in self.found else None

    def _stop(self, sizes: Sequence[int], at: int) -> int:
        """Before the first that does not belong to the present part."""
        if self._limits is None:
            return len(sizes)
        if (said := self.found.get(self.number)) is not None:
            return min(len(sizes), at + max(0, said.deliveries - self.taken))
        room = self._limits.deliveries - self.taken
        for place in range(at, min(len(sizes), at + room)):
            self._bytes += sizes[place]
            if self._bytes > self._limits.bytes and self.taken + place - at > 0:
                return place
        return min(len(sizes), at + room)
