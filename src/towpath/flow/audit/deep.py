"""Compares what an output holds with what the batches have delivered to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from towpath.flow.audit.batch_row import BatchRow, StageRows
from towpath.flow.audit.buckets import Buckets
from towpath.flow.audit.counting import TELL_EVERY, Progress
from towpath.flow.audit.errors import ErrorsFound
from towpath.flow.audit.locating import Inputs, find_extra, locate
from towpath.flow.audit.matching import ID_BYTES, Matched, Matching
from towpath.flow.audit.problem import Problem, ProblemKind, Unproven
from towpath.flow.audit.readers import Reach, SinkReader
from towpath.flow.audit.segments import Segment
from towpath.flow.delivery import DeliveryIds, Digest
from towpath.flow.positions import Range

MOST_NAMED = 20


def take_ids(reader: SinkReader, progress: Progress = lambda done: None) -> Buckets:
    """All that is in the sink now."""
    found = Buckets(ID_BYTES)
    for each in reader.delivered():
        found.add(_of_full_length(each.delivery_id))
        if found.count % TELL_EVERY == 0:
            progress(found.count)
    return found


@dataclass(slots=True)
class OutputCheck:
    """One output of a stage. Pure, but for the names of what is unknown, which are asked of the reader."""

    stage: StageRows
    output: str
    segments: list[Segment]
    reader: SinkReader
    errors: ErrorsFound
    matched: Matched = field(default_factory=Matched)
    found: int = 0

    @property
    def ids(self) -> DeliveryIds:
        return DeliveryIds(self.stage.flow, self.stage.name, self.output)

    def run(self, found: Buckets) -> Iterator[Problem | Unproven]:
        self.found = found.count
        batches = list(self.stage.batches)
        delivered = [batch.delivered(self.output) if batch.is_committed else 0 for batch in batches]
        matching = Matching(self.segments, self.ids, per_batch=self.reader.per_batch)
        self.matched = matching.run(found, delivered)
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
        there = self.matched.digest(number)
        missing = batch.delivered(self.output) - self.matched.counts[number]
        if missing == 0 and expected == there:
            return
        if missing >= 0 and self.reader.reach is Reach.PART:
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
            places, is_exact = locate(inputs, self.ids, _minus(expected, there), missing)
            said = told[1] if is_exact else f"{told[1]}; {missing} of these offsets are missing"
            return self._problem(ProblemKind.MISSING, batch, told[0], said, places)
        if missing < 0:
            places = find_extra(inputs, self.ids, _minus(there, expected)) or batch.ranges
            return self._problem(ProblemKind.EXTRA, batch, *told, places)
        digests = (f"the digest {expected.hex[:16]}…", f"{there.hex[:16]}…")
        return self._problem(ProblemKind.DIFFERENT, batch, *digests, batch.ranges)

    def _inputs(self, number: int, batch: BatchRow) -> Inputs:
        parts = [
            (segment.place, self.matched.marks.get(at))
            for at, segment in enumerate(self.segments)
            if number in segment.owners
        ]
        return Inputs(parts, self.errors.marks.get(batch.hash, {}))

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
        self, kind: ProblemKind, batch: BatchRow, expected: str, found: str, places: tuple[Range, ...]
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
