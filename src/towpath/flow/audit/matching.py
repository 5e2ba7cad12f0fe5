"""Puts the delivery ids that a sink holds to the batches whose offsets give them.

An id is a hash: it cannot be read back. So the ids that the offsets of all batches would give are made anew and
compared, bucket by bucket, first with the ordinal 0, then, of the inputs that were found, with 1, and so on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from struct import Struct

from towpath.flow.audit.buckets import BUCKETS, Buckets
from towpath.flow.audit.marks import Marks
from towpath.flow.audit.segments import Segment
from towpath.flow.delivery import DeliveryIds, Digest

ID_BYTES = 32
_place = Struct(">IQI")  # segment, offset, ordinal
MOST_ORDINALS = 32  # that are tried for inputs of which the first delivery is missing
MOST_LISTED = 100

Wanted = Iterable[tuple[int, int, int]]  # segment, offset, ordinal


@dataclass(frozen=True, slots=True)
class Doubled:
    """A delivery that is there more often than it can be."""

    segment: Segment
    offset: int
    copies: int
    id: bytes


@dataclass(slots=True)
class Matched:
    """What was found, by batch."""

    counts: Counter[int] = field(default_factory=Counter)
    digests: dict[int, Digest] = field(default_factory=dict)
    marks: dict[int, Marks] = field(default_factory=dict)  # by segment: inputs of which something was found
    repeats: int = 0  # copies beyond the first
    doubled: list[Doubled] = field(default_factory=list)
    strangers: int = 0
    some_strangers: list[bytes] = field(default_factory=list)

    def digest(self, batch: int) -> Digest:
        return self.digests.get(batch, Digest())


class Matching:
    """`per_batch`: each batch that has read an input may have left a copy of its own."""

    def __init__(self, segments: Sequence[Segment], ids: DeliveryIds, *, per_batch: bool = False) -> None:
        self._segments = segments
        self._ids = ids
        self._per_batch = per_batch
        self.matched = Matched()

    def run(self, found: Buckets, expected: Sequence[int]) -> Matched:
        """`found` is used up. `expected` says how many deliveries each batch has made."""
        with ExitStack() as closing:
            wanted: Wanted | None = self._first()
            while found.count and wanted is not None:
                again = closing.enter_context(Buckets(_place.size))
                found = self._round(found, wanted, again)
                wanted = self._next(again) if again.count else None
            if found.count:
                found = self._round(found, self._others(expected), closing.enter_context(Buckets(_place.size)))
        with found:
            self.matched.strangers = found.count
            self.matched.some_strangers = list(islice(found, MOST_LISTED))
        return self.matched

    def _first(self) -> Wanted:
        for number, segment in enumerate(self._segments):
            for offset in range(segment.place.start, segment.place.stop):
                yield number, offset, 0

    def _next(self, again: Buckets) -> Wanted:
        for row in again:
            number, offset, ordinal = _place.unpack(row)
            yield number, offset, ordinal + 1

    def _others(self, expected: Sequence[int]) -> Wanted:
        """Inputs of batches that lack something: a later delivery may be there without the first."""
        counts = self.matched.counts
        short = {number for number, count in enumerate(expected) if counts[number] < count}
        for number, segment in enumerate(self._segments):
            if short.intersection(segment.owners):
                for offset in range(segment.place.start, segment.place.stop):
                    yield from ((number, offset, ordinal) for ordinal in range(1, MOST_ORDINALS))

    def _round(self, found: Buckets, wanted: Wanted, again: Buckets) -> Buckets:
        """Match what it can; returns the rest. `again` gets the places of what was matched."""
        rest = Buckets(ID_BYTES)
        with found, Buckets(ID_BYTES + _place.size) as made:
            for row in self._made(wanted):
                made.add(row)
            for bucket in range(BUCKETS):
                copies = Counter(found.rows(bucket))
                for row in made.rows(bucket) if copies else ():
                    if count := copies.pop(row[:ID_BYTES], 0):
                        self._credit(row, count)
                        again.add(row[ID_BYTES:])
                for id in copies.elements():
                    rest.add(id)
        return rest

    def _made(self, wanted: Wanted) -> Iterator[bytes]:
        for number, offset, ordinal in wanted:
            place = self._segments[number].place
            id = self._ids.of(place.topic_id, place.partition, offset, ordinal)
            yield id + _place.pack(number, offset, ordinal)

    def _credit(self, row: bytes, copies: int) -> None:
        id = row[:ID_BYTES]
        number, offset, _ = _place.unpack(row[ID_BYTES:])
        segment, matched = self._segments[number], self.matched
        for owner in segment.owners:
            matched.counts[owner] += 1
            matched.digests.setdefault(owner, Digest()).add(id)
        if number not in matched.marks:
            matched.marks[number] = Marks(segment.place)
        matched.marks[number].add(offset)
        matched.repeats += copies - 1
        if copies > (segment.readings if self._per_batch else 1) and len(matched.doubled) < MOST_LISTED:
            matched.doubled.append(Doubled(segment, offset, copies, id))
