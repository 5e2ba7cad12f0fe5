"""What the audit works with: rows of the ledger, ranges and sets of offsets, and the problems that it reports. Pure.

`StageRows` holds what the ledger says about a stage. `segments_of` cuts the offsets of a stage where a batch begins or
ends, so that all offsets of a segment were read by the same batches. `is_arrival` and `readable` are the only places
that say what counts as an arrival, and what a batch has read of its ranges.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from towpath.blocks.rule import OPEN, BlockBarrier
from towpath.flow.delivery.ledger import BatchState
from towpath.flow.delivery.positions import OffsetRange, Positions, Spot
from towpath.flow.records.reentry import Sent
from towpath.flow.topics import FlowTopics


@dataclass(frozen=True, slots=True)
class StageRows:
    """What the ledger says about a stage. Batches come in their order."""

    flow: str
    name: str
    generation: int
    topics: Mapping[str, Sequence[str]]  # the ids of each topic that is read, oldest first
    starting: Positions
    batches: Sequence[BatchRow] = ()
    gaps: Sequence[GapRow] = ()
    totals: Mapping[str, Any] = field(default_factory=dict)
    unreadable: Sequence[UnreadableRow] = ()
    recalled: frozenset[Sent] = frozenset()  # what the desk has called back, of the whole flow

    @property
    def committed(self) -> Iterator[BatchRow]:
        return (each for each in self.batches if each.is_committed)

    @property
    def stops(self) -> dict[Spot, int]:
        """Where the stage has come to in its present generation."""
        stops = self.starting.stops
        for each in self.committed:
            if each.generation == self.generation:
                stops |= each.positions.stops
        return stops


@dataclass(frozen=True, slots=True)
class BatchRow:
    """What the ledger says about a batch."""

    generation: int
    batch_id: int
    hash: str
    positions: Positions
    state: BatchState = BatchState.COMMITTED
    counts: Mapping[str, Any] = field(default_factory=dict)
    digests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    blocks: BlockBarrier = OPEN  # the block rules that were fixed with it

    @property
    def is_committed(self) -> bool:
        return self.state is BatchState.COMMITTED

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """Those in which there is something to read."""
        return tuple(each for each in self.positions if not each.is_empty)

    @property
    def outputs(self) -> set[str]:
        """Those of which the row tells."""
        parts = (self.counts.get("delivered"), self.digests)
        return {name for part in parts if isinstance(part, Mapping) for name in part}

    def count(self, name: str) -> int:
        """A number of the row, added up where it is split by step, code or output."""
        return added_up(self.counts.get(name, 0))

    def delivered(self, output: str) -> int:
        found = self.counts.get("delivered", {})
        return added_up(found.get(output, 0)) if isinstance(found, Mapping) else 0


@dataclass(frozen=True, slots=True)
class GapRow:
    """Offsets that will never be read. Those that were noticed by a batch are also told to the error topic."""

    generation: int
    place: OffsetRange
    batch_id: int | None = None


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A row that makes no sense, and why."""

    generation: int
    batch_id: int
    why: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What was expected at a place, and what was found there. `places` are the offsets among which it lies."""

    kind: ProblemKind
    stage: str
    expected: str
    found: str
    generation: int | None = None
    batch_id: int | None = None
    places: tuple[OffsetRange, ...] = ()
    output: str | None = None

    @property
    def where(self) -> str:
        """`clicks, generation 1, batch 3, clicks/0 from 17 to 20`"""
        parts = [self.stage]
        if self.generation is not None:
            parts.append(f"generation {self.generation}")
        if self.batch_id is not None:
            parts.append(f"batch {self.batch_id}")
        if self.output is not None:
            parts.append(f"output {self.output}")
        return ", ".join([*parts, *map(spelled, self.places)])

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "stage": self.stage,
            "generation": self.generation,
            "batch_id": self.batch_id,
            "output": self.output,
            "places": [each._asdict() for each in self.places],
            "expected": self.expected,
            "found": self.found,
        }


class ProblemKind(StrEnum):
    """One kind for each thing that is checked."""

    HOLE = "batch missing"  # a number is left out among the batches of a generation
    UNREADABLE_ROW = "row unreadable"  # a row of the ledger makes no sense
    STRAY_ROW = "row out of place"  # a batch where none can be, or of a topic that the stage does not read
    BREAK = "positions do not follow"  # a batch does not begin where the one before it ended
    HASH = "hash is not the row's"  # flow, stage, numbers and positions give another hash
    JUMP = "passed over"  # between two generations, offsets that no gap explains
    SUM = "row does not add up"  # read is not loaded + filtered + failed
    TOTALS = "totals differ"  # the sums of the stage are not those of its batches
    READ = "count differs"  # the topic holds another number of records than the batch has read
    BEYOND = "beyond the end"  # a batch ends where its topic has never been
    FAILED = "error records differ"  # more or fewer than the batch has counted
    STRANGE_ERROR = "error record of no batch"
    UNREADABLE_ERROR = "error record unreadable"
    GAP = "gap differs"  # the ledger and the error topic do not tell of the same gap
    MISSING = "delivery missing"  # a batch has delivered it, and the sink does not have it
    EXTRA = "delivery not in the ledger"  # the sink has it from a record for which the batch has delivered nothing
    DIFFERENT = "other deliveries"  # as many as the ledger says, and not the same
    DOUBLED = "delivery doubled"  # more than once in the sink
    STRANGER = "unknown in the sink"  # no record of any batch gives this id
    TORN = "file torn"  # a file and the ids beside it do not fit
    PLACES = "places differ"  # not as many are at the desk as have failed
    TAKEN = "taken in differs"  # the desk has read another number of error records than there are, or has lost some


@dataclass(frozen=True, slots=True)
class Unproven:
    """What can be neither shown nor refuted any more, and why."""

    stage: str
    what: str
    why: str
    records: int = 0  # that are taken on the ledger's word

    def to_json(self) -> dict[str, Any]:
        return {"stage": self.stage, "what": self.what, "why": self.why, "records": self.records}


@dataclass(frozen=True, slots=True)
class OffsetSegment:
    """A part of what was read. `owners`: the committed batches that have read it, by their places in the list."""

    place: OffsetRange
    owners: tuple[int, ...]
    readings: int  # how many batches have read it, also those that were given up or are at work


def segments_of(
    batches: list[BatchRow], beyond: Iterable[OffsetRange], returned: Iterable[tuple[OffsetRange, int]] = ()
) -> list[OffsetSegment]:
    """The parts of all that was read, and `beyond` it what may be read at this moment.

    `returned` is what came back, where it was read for the first time, and the batch that has read it again.
    """
    readings: dict[Spot, list[tuple[OffsetRange, int | None]]] = {}
    for number, batch in enumerate(batches):
        for place in batch.ranges:
            readings.setdefault(place.spot, []).append((place, number if batch.is_committed else None))
    for place, number in returned:
        readings.setdefault(place.spot, []).append((place, number if batches[number].is_committed else None))
    for place in beyond:
        if not place.is_empty:
            readings.setdefault(place.spot, []).append((place, None))
    return [segment for found in readings.values() for segment in _cut(found)]


def _cut(readings: list[tuple[OffsetRange, int | None]]) -> list[OffsetSegment]:
    edges = sorted({edge for place, _ in readings for edge in (place.start, place.stop)})
    owners: list[list[int | None]] = [[] for _ in edges]
    for place, number in readings:
        for at in range(bisect_left(edges, place.start), bisect_left(edges, place.stop)):
            owners[at].append(number)
    template = readings[0][0]
    return [
        OffsetSegment(
            template._replace(start=edges[at], stop=edges[at + 1]),
            tuple(number for number in found if number is not None),
            len(found),
        )
        for at, found in enumerate(owners)
        if found
    ]


def is_arrival(flow: str, topic: str) -> bool:
    """What comes back from the desk arrived before: it settles an earlier failure and is no new record."""
    return topic != FlowTopics.of(flow).reentry


def readable(ranges: Iterable[OffsetRange], gaps: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """What was left of some ranges when they were read: gaps had been deleted by then."""
    known = list(gaps)
    for each in ranges:
        yield from uncovered(each, known) if known else (each,)


def uncovered(whole: OffsetRange, covers: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """The parts of a range that none of the others covers, in order."""
    at = whole.start
    for cover in sorted(each for each in covers if each.spot == whole.spot):
        if cover.start >= whole.stop:
            break
        if at < cover.start:
            yield whole._replace(start=at, stop=cover.start)
        at = max(at, cover.stop)
    if at < whole.stop:
        yield whole._replace(start=at)


def runs(topic: OffsetRange, offsets: Iterable[int]) -> list[OffsetRange]:
    """Offsets of a partition as ranges without holes."""
    found: list[OffsetRange] = []
    for offset in sorted(offsets):
        if found and found[-1].stop == offset:
            found[-1] = found[-1]._replace(stop=offset + 1)
        else:
            found.append(topic._replace(start=offset, stop=offset + 1))
    return found


class OffsetSet:
    """Some offsets of a range, one bit each: those of a batch of a million records take at most 125 kB."""

    __slots__ = ("_bits", "_start", "_stop", "count")

    def __init__(self, place: OffsetRange) -> None:
        self._start, self._stop = place.start, place.stop
        self._bits = bytearray()
        self.count = 0

    def add(self, offset: int) -> bool:
        """Mark an offset; whether that was news. `ValueError` when it lies outside."""
        if not self._start <= offset < self._stop:
            raise ValueError(f"offset {offset} is not between {self._start} and {self._stop}")
        at, bit = divmod(offset - self._start, 8)
        if at >= len(self._bits):
            self._bits.extend(bytes(at + 1 - len(self._bits)))
        if self._bits[at] >> bit & 1:
            return False
        self._bits[at] |= 1 << bit
        self.count += 1
        return True

    def __contains__(self, offset: int) -> bool:
        at, bit = divmod(offset - self._start, 8)
        return 0 <= at < len(self._bits) and bool(self._bits[at] >> bit & 1)


def flat_counts(counts: Mapping[str, Any]) -> dict[str, int]:
    """`{"read": 9, "failed of 9": 2}`"""
    flat: dict[str, int] = {}
    for name, value in counts.items():
        if isinstance(value, Mapping):
            flat |= {f"{name} of {part}": added_up(count) for part, count in value.items()}
        else:
            flat[name] = added_up(value)
    return flat


def added_up(value: object) -> int:
    """A count, whether it is split up or not. What is no number counts nothing: the sums will not fit."""
    if isinstance(value, Mapping):
        return sum(map(added_up, value.values()))
    return value if isinstance(value, int) else 0


def spelled(place: OffsetRange) -> str:
    """A single record as it is traced, more as a range."""
    if place.stop == place.start + 1:
        return f"{place.topic}/{place.partition}/{place.start}"
    return str(place)
