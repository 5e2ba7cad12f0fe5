"""Compares what an output holds with what the batches of a stage have delivered to it.

A delivery id is a hash: it cannot be read back. So the ids that the offsets of all batches would give are made anew and
compared, bucket by bucket, first with the ordinal 0, then, of the inputs that were found, with 1, and so on. Buckets
are rows of a fixed width, spread over files by their first byte, so that only a part of them is in memory at a time.

Which records lack their delivery: the ledger knows only the sum of the delivery ids of a batch. If one is missing, the
difference of the sums *is* its id. If several are, they are known where nothing else could be missing: no input of the
batch was filtered.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from struct import Struct
from types import TracebackType
from typing import IO, Self

from towpath.flow.audit.errors import ErrorsFound
from towpath.flow.audit.rows import BatchRow, OffsetSegment, OffsetSet, Problem, ProblemKind, StageRows, Unproven, runs
from towpath.flow.audit.view import TELL_EVERY, Progress
from towpath.flow.delivery.ids import DeliveryIds, Digest
from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.sinks.sink import SinkReach, SinkReader

BUCKETS = 64
IN_MEMORY = 1 << 16  # bytes of each bucket, before it has a file
ID_BYTES = 32
MOST_ORDINALS = 32  # that are tried for inputs of which the first delivery is missing
MOST_LISTED = 100
MOST_CANDIDATES = 2_000  # that are put together in pairs
MOST_NAMED = 20
_place = Struct(">IQI")  # segment, offset, ordinal
_Wanted = Iterable[tuple[int, int, int]]  # segment, offset, ordinal


def take_ids(reader: SinkReader, progress: Progress = lambda done: None) -> Buckets:
    """All that is in the sink now."""
    found = Buckets(ID_BYTES)
    for each in reader.delivered():
        found.add(_of_full_length(each.delivery_id))
        if found.count % TELL_EVERY == 0:
            progress(found.count)
    return found


@dataclass(frozen=True, slots=True)
class DuplicateDelivery:
    """A delivery that is there more often than it can be."""

    segment: OffsetSegment
    offset: int
    copies: int
    id: bytes


@dataclass(slots=True)
class MatchResult:
    """What was found, by batch."""

    counts: Counter[int] = field(default_factory=Counter)
    digests: dict[int, Digest] = field(default_factory=dict)
    marks: dict[int, OffsetSet] = field(default_factory=dict)  # by segment: inputs of which something was found
    repeats: int = 0  # copies beyond the first
    doubled: list[DuplicateDelivery] = field(default_factory=list)
    strangers: int = 0
    some_strangers: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class OutputCheck:
    """One output of a stage. Pure, but for the names of what is unknown, which are asked of the reader."""

    stage: StageRows
    output: str
    segments: list[OffsetSegment]
    reader: SinkReader
    errors: ErrorsFound
    matched: MatchResult = field(default_factory=MatchResult)
    found: int = 0

    @property
    def ids(self) -> DeliveryIds:
        return DeliveryIds(self.stage.flow, self.stage.name, self.output)

    def run(self, found: Buckets) -> Iterator[Problem | Unproven]:
        self.found = found.count
        batches = list(self.stage.batches)
        delivered = [batch.delivered(self.output) if batch.is_committed else 0 for batch in batches]
        matcher = DeliveryMatcher(self.segments, self.ids, per_batch=self.reader.per_batch)
        self.matched = matcher.run(found, delivered)
        yield from self._doubled()
        yield from self._strangers()
        for flaw in self.reader.flaws:
            told = (f"{flaw.expected} in {flaw.where}", flaw.found)
            yield Problem(ProblemKind.TORN, self.stage.name, *told, output=self.output)
        for number, batch in enumerate(batches):
            if batch.is_committed:
                yield from self._batch(number, batch)

    def _batch(self, number: int, batch: BatchRow) -> Iterator[Problem | Unproven]:
        expected = Digest()
        for digest in batch.digests.get(self.output, {}).values():
            expected.merge(Digest.from_hex(digest))
        there = self.matched.digests.get(number, Digest())
        missing = batch.delivered(self.output) - self.matched.counts[number]
        if missing == 0 and expected == there:
            return
        if missing >= 0 and self.reader.reach is SinkReach.PART:
            return  # what is not there may have been replaced; `PARTLY` says so once
        mine = [segment for segment in self.segments if number in segment.owners]
        if any(segment.readings > 1 for segment in mine) and missing <= 0:
            what = f"what batch {batch.batch_id} of generation {batch.generation} has delivered to {self.output}"
            yield Unproven(self.stage.name, what, "other batches have read the same records")
        else:
            yield self._difference(number, batch, missing, expected, there)

    def _difference(self, number: int, batch: BatchRow, missing: int, expected: Digest, there: Digest) -> Problem:
        inputs = self._inputs(number, batch)
        told = (f"{batch.delivered(self.output)} deliveries", f"{self.matched.counts[number]}")
        if missing > 0:
            places, is_exact = _locate(inputs, self.ids, _minus(expected, there), missing)
            said = told[1] if is_exact else f"{told[1]}; {missing} of these offsets are missing"
            return self._problem(ProblemKind.MISSING, batch, told[0], said, places)
        if missing < 0:
            extra = _with_id(inputs, self.ids, _minus(there, expected))
            return self._problem(ProblemKind.EXTRA, batch, *told, batch.ranges if extra is None else (extra,))
        digests = (f"the digest {expected.hex[:16]}…", f"{there.hex[:16]}…")
        return self._problem(ProblemKind.DIFFERENT, batch, *digests, batch.ranges)

    def _inputs(self, number: int, batch: BatchRow) -> _Inputs:
        parts = [
            (segment.place, self.matched.marks.get(at))
            for at, segment in enumerate(self.segments)
            if number in segment.owners
        ]
        return _Inputs(parts, self.errors.marks.get(batch.hash, {}))

    def _doubled(self) -> Iterator[Problem]:
        if not self.reader.is_idempotent:
            return  # at least once: repeats are counted, and no fault
        for each in self.matched.doubled:
            place = each.segment.place._replace(start=each.offset, stop=each.offset + 1)
            batches = [self.stage.batches[owner] for owner in each.segment.owners]
            where = (batches[-1].generation, batches[-1].batch_id) if batches else (None, None)
            told = ("once", f"{each.copies} times", *where, (place,), self.output)
            yield Problem(ProblemKind.DOUBLED, self.stage.name, *told)

    def _strangers(self) -> Iterator[Problem]:
        wanted = set(self.matched.some_strangers[:MOST_NAMED])
        if not wanted:
            return
        for name in _names(self.reader, wanted):
            told = ("a delivery of some batch", name)
            yield Problem(ProblemKind.STRANGER, self.stage.name, *told, output=self.output)
        if (more := self.matched.strangers - len(wanted)) > 0:
            yield Problem(ProblemKind.STRANGER, self.stage.name, "none", f"{more} more", output=self.output)

    def _problem(
        self, kind: ProblemKind, batch: BatchRow, expected: str, found: str, places: tuple[OffsetRange, ...]
    ) -> Problem:
        where = (batch.generation, batch.batch_id, places, self.output)
        return Problem(kind, self.stage.name, expected, found, *where)


def _of_full_length(id: bytes) -> bytes:
    """What somebody else has written may have an id of any length: it is known by a hash, and matches nothing."""
    return id if len(id) == ID_BYTES else sha256(id).digest()


def _minus(one: Digest, other: Digest) -> Digest:
    rest = Digest.from_hex(one.hex)
    rest.remove(bytes.fromhex(other.hex))
    return rest


def _names(reader: SinkReader, wanted: Iterable[bytes]) -> list[str]:
    """How a person finds what bears these ids: the sink is read once more."""
    left = set(wanted)
    names = []
    for each in reader.delivered():
        if (id := _of_full_length(each.delivery_id)) in left:
            left.discard(id)
            names.append(each.name)
        if not left:
            break
    return names + [f"delivery {id.hex()}" for id in sorted(left)]


class DeliveryMatcher:
    """`per_batch`: each batch that has read an input may have left a copy of its own."""

    def __init__(self, segments: Sequence[OffsetSegment], ids: DeliveryIds, *, per_batch: bool = False) -> None:
        self._segments = segments
        self._ids = ids
        self._per_batch = per_batch
        self.matched = MatchResult()

    def run(self, found: Buckets, expected: Sequence[int]) -> MatchResult:
        """`found` is used up. `expected` says how many deliveries each batch has made."""
        with ExitStack() as closing:
            wanted: _Wanted | None = self._first()
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

    def _first(self) -> _Wanted:
        for number, segment in enumerate(self._segments):
            for offset in range(segment.place.start, segment.place.stop):
                yield number, offset, 0

    def _next(self, again: Buckets) -> _Wanted:
        for row in again:
            number, offset, ordinal = _place.unpack(row)
            yield number, offset, ordinal + 1

    def _others(self, expected: Sequence[int]) -> _Wanted:
        """_Inputs of batches that lack something: a later delivery may be there without the first."""
        counts = self.matched.counts
        short = {number for number, count in enumerate(expected) if counts[number] < count}
        for number, segment in enumerate(self._segments):
            if short.intersection(segment.owners):
                for offset in range(segment.place.start, segment.place.stop):
                    yield from ((number, offset, ordinal) for ordinal in range(1, MOST_ORDINALS))

    def _round(self, found: Buckets, wanted: _Wanted, again: Buckets) -> Buckets:
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

    def _made(self, wanted: _Wanted) -> Iterator[bytes]:
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
            matched.marks[number] = OffsetSet(segment.place)
        matched.marks[number].add(offset)
        matched.repeats += copies - 1
        if copies > (segment.readings if self._per_batch else 1) and len(matched.doubled) < MOST_LISTED:
            matched.doubled.append(DuplicateDelivery(segment, offset, copies, id))


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The inputs of one batch, with those of which something was found in the sink or in the error topic."""

    parts: Sequence[tuple[OffsetRange, OffsetSet | None]]
    failed: dict[tuple[str, int], OffsetSet]

    def all(self) -> Iterator[tuple[OffsetRange, int]]:
        return ((place, offset) for place, _ in self.parts for offset in range(place.start, place.stop))

    def without_trace(self) -> Iterator[tuple[OffsetRange, int]]:
        for place, marks in self.parts:
            failed = self.failed.get(place.spot, ())
            for offset in range(place.start, place.stop):
                if (marks is None or offset not in marks) and offset not in failed:
                    yield place, offset


def _locate(inputs: _Inputs, ids: DeliveryIds, lacking: Digest, missing: int) -> tuple[tuple[OffsetRange, ...], bool]:
    """The places of what is missing, and whether it is these and no others; else it is among them."""
    if missing == 1:
        found = _with_id(inputs, ids, lacking)
        if found is not None:
            return (found,), True
    candidates = list(inputs.without_trace())
    made = {ids.of(place.topic_id, place.partition, offset, 0): (place, offset) for place, offset in candidates}
    whole = Digest()
    whole.add_many(made)
    if whole == lacking:
        return _places(candidates), True
    if missing == 2 and len(made) <= MOST_CANDIDATES:
        for id, one in made.items():
            rest = Digest.from_hex(lacking.hex)
            rest.remove(id)
            other = made.get(bytes.fromhex(rest.hex))
            if other is not None and other != one:
                return _places([one, other]), True
    return _places(candidates), False


def _with_id(inputs: _Inputs, ids: DeliveryIds, digest: Digest) -> OffsetRange | None:
    wanted = bytes.fromhex(digest.hex)
    for ordinal in range(MOST_ORDINALS):
        for place, offset in inputs.all():
            if ids.of(place.topic_id, place.partition, offset, ordinal) == wanted:
                return place._replace(start=offset, stop=offset + 1)
    return None


def _places(candidates: Sequence[tuple[OffsetRange, int]]) -> tuple[OffsetRange, ...]:
    by_part: dict[OffsetRange, list[int]] = {}
    for place, offset in candidates:
        by_part.setdefault(place, []).append(offset)
    return tuple(each for place, offsets in by_part.items() for each in runs(place, offsets))


class Buckets:
    """Add rows, then take them bucket by bucket. Rows with the same beginning are in the same bucket."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._parts = [bytearray() for _ in range(BUCKETS)]
        self._files: dict[int, IO[bytes]] = {}
        self.count = 0

    def add(self, row: bytes) -> None:
        if len(row) != self._width:
            raise ValueError(f"a row has {self._width} bytes, not {len(row)}")
        at = row[0] % BUCKETS
        part = self._parts[at]
        part += row
        self.count += 1
        if len(part) >= IN_MEMORY:
            self._file(at).write(part)
            part.clear()

    def rows(self, bucket: int) -> Iterator[bytes]:
        if bucket in self._files:
            file = self._files[bucket]
            file.seek(0)
            while portion := file.read(self._width * 1_000):
                yield from self._cut(portion)
        yield from self._cut(bytes(self._parts[bucket]))

    def __iter__(self) -> Iterator[bytes]:
        return (row for bucket in range(BUCKETS) for row in self.rows(bucket))

    def _cut(self, portion: bytes) -> Iterator[bytes]:
        return (portion[at : at + self._width] for at in range(0, len(portion), self._width))

    def _file(self, bucket: int) -> IO[bytes]:
        if bucket not in self._files:
            self._files[bucket] = tempfile.TemporaryFile(prefix="towpath-audit-")  # noqa: SIM115 - closed by close()
        return self._files[bucket]

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files = {}
        self._parts = [bytearray() for _ in range(BUCKETS)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
