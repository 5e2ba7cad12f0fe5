"""What can be said about an index whose ids are the flow's own.

Which id a record gets is known to the steps alone, and a newer record takes the place of an older one. So in general
nothing can be missed here; but each document bears the version of the record that it comes from, and that record must
have been read (`VersionCheck`).

Where no step stands between the records and the index, the records alone say which documents it must hold
(`ExpectedIds`). Of every record that a committed batch has read and that did not fail, the id is made anew. A document
with that id must be there, with the record's version or a higher one: a newer record of the id may have taken its
place. Which records the stage has dropped as duplicates is found again from the log, by the same rule and in the same
order (`DroppedDuplicates`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from struct import Struct
from typing import Any

from towpath.blocks.rule import OneRecord
from towpath.errors import OffsetOutOfRange
from towpath.flow.audit.errors import ErrorsFound
from towpath.flow.audit.outputs import BUCKETS, Buckets
from towpath.flow.audit.rows import BatchRow, Problem, ProblemKind, StageRows, is_arrival
from towpath.flow.audit.view import TELL_EVERY, Progress, topic_state
from towpath.flow.delivery.ids import OFFSET_BITS, version_of
from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.documents.reader import Unreadable, read_document
from towpath.flow.graph.nodes import Output, Source
from towpath.flow.graph.stateful_nodes import part_of, whole_number
from towpath.flow.sinks.index.sink import INPUT, IndexSink
from towpath.flow.sinks.sink import Versioned
from towpath.flow.sinks.template import Template
from towpath.flow.stateful.dedupe import DedupeRule, NumberedRecord
from towpath.flow.stateful.keeper import ShardState
from towpath.log.log import Log
from towpath.log.record import Record

MOST_LISTED = 20
_KEY_BYTES = 32
_expected = Struct(">QIQ")  # version, number of the range, offset
_found = Struct(">Q")  # version


@dataclass(slots=True)
class ExpectedIds:
    """Takes what the records say, then the documents, then tells what is missing. Bounded memory, as with digests."""

    stage: StageRows
    output: str
    source: Source
    sink: IndexSink
    id: Template
    dropped: DroppedDuplicates | None = None
    is_blind: bool = False  # records are gone by which others are known to be duplicates
    _places: list[tuple[BatchRow, OffsetRange]] = field(default_factory=list)
    _wanted: Buckets = field(default_factory=lambda: Buckets(_KEY_BYTES + _expected.size))
    _there: Buckets = field(default_factory=lambda: Buckets(_KEY_BYTES + _found.size))

    @classmethod
    def of(cls, stage: StageRows, output: Output) -> ExpectedIds | None:
        """None where a step or an expectation stands between the records and the index, or a function with state."""
        source, sink = output.input, output.sink
        if not isinstance(source, Source) or source.expectations or not isinstance(sink, IndexSink) or sink.id is None:
            return None
        if source.stateful is not None or source.join is not None:
            return None
        return cls(stage, output.name, source, sink, sink.id, DroppedDuplicates.of(source))

    def read(self, log: Log, errors: ErrorsFound, progress: Progress = lambda done: None) -> None:
        """Make the ids of all records that were loaded and can still be read."""
        fill = self.id.filler()
        for batch in self.stage.committed:
            failed = errors.marks.get(batch.hash, {})
            if self.dropped is not None:
                self.dropped.begin(batch)
            for place in sorted(batch.ranges, key=lambda each: (each.topic, each.partition)):  # as the operator does
                if not is_arrival(self.stage.flow, place.topic) or place.topic not in self.source.topics:
                    continue
                if self.dropped is not None:
                    self.is_blind |= self.dropped.forgets or not _is_whole(log, place)
                number = len(self._places)
                self._places.append((batch, place))
                marks = failed.get(place.spot, ())
                for record in _records(log, place):
                    if batch.blocks and batch.blocks.caught_in_topics(OneRecord.of(record)):
                        continue
                    if self.dropped is not None and self.dropped.is_dropped(record):
                        continue
                    if record.offset not in marks and (made := self._made(record, place, fill)) is not None:
                        self._wanted.add(_key(made[0]) + _expected.pack(made[1], number, record.offset))
                        if self._wanted.count % TELL_EVERY == 0:
                            progress(self._wanted.count)

    def see(self, id: str, version: int) -> None:
        """A document that is there."""
        self._there.add(_key(id) + _found.pack(version))

    def problems(self) -> Iterator[Problem]:
        """What should be there and is not, or only as an older record has left it."""
        count = 0
        with self._wanted, self._there:
            for bucket in range(0 if self.is_blind else BUCKETS):
                for at, offset, told in self._missing(bucket):
                    count += 1
                    if count <= MOST_LISTED:
                        yield self._problem(at, offset, *told)
        if count > MOST_LISTED:
            told = ("all documents", f"{count - MOST_LISTED} more are missing")
            yield Problem(ProblemKind.MISSING, self.stage.name, *told, output=self.output)

    def _problem(self, at: int, offset: int, expected: str, found: str) -> Problem:
        batch, place = self._places[at]
        places = (place._replace(start=offset, stop=offset + 1),)
        where = (batch.generation, batch.batch_id, places, self.output)
        return Problem(ProblemKind.MISSING, self.stage.name, expected, found, *where)

    def _missing(self, bucket: int) -> Iterator[tuple[int, int, tuple[str, str]]]:
        newest: dict[bytes, tuple[int, int, int]] = {}
        for row in self._wanted.rows(bucket):
            key, said = row[:_KEY_BYTES], _expected.unpack(row[_KEY_BYTES:])
            newest[key] = max(newest.get(key, said), said)
        there: dict[bytes, int] = {}
        for row in self._there.rows(bucket):
            key, (version,) = row[:_KEY_BYTES], _found.unpack(row[_KEY_BYTES:])
            there[key] = max(there.get(key, version), version)
        for key, (wanted, at, offset) in newest.items():
            if key not in there:
                yield at, offset, ("a document of its id", "none")
            elif there[key] < wanted:
                yield at, offset, (f"the version {wanted} or a newer one", f"the version {there[key]}")

    def _made(self, record: Record, place: OffsetRange, fill: Any) -> tuple[str, int] | None:
        """Id and version. None for what cannot have been loaded: that it is missing among the errors is told there."""
        try:
            document = read_document(record.value, duplicates=self.source.duplicates)
            return fill(document), self._version(document, place, record.offset)
        except (Unreadable, TypeError, ValueError, KeyError):
            return None

    def _version(self, document: Mapping[str, Any], place: OffsetRange, offset: int) -> int:
        if self.sink.version == INPUT:
            return version_of(list(self.stage.topics[place.topic]).index(place.topic_id), offset)
        return 0 if self.sink.version is None else int(document[self.sink.version])


def _key(id: str) -> bytes:
    return sha256(id.encode(errors="surrogatepass")).digest()


def _is_whole(log: Log, place: OffsetRange) -> bool:
    topic = topic_state(log, place.topic)
    return topic.id == place.topic_id and topic.starts.get(place.partition, place.stop) <= place.start


def _records(log: Log, place: OffsetRange) -> Iterator[Record]:
    """What is left of a range: of what was deleted since, nothing can be said."""
    topic = topic_state(log, place.topic)
    start = max(place.start, topic.starts.get(place.partition, place.stop))
    if topic.id == place.topic_id and start < place.stop:
        try:
            yield from log.read(place.topic, place.partition, start, place.stop)
        except OffsetOutOfRange:
            return


@dataclass(slots=True)
class DroppedDuplicates:
    """Goes through the records of one source, batch by batch."""

    rule: DedupeRule
    _generation: int | None = None
    _state: ShardState = field(default_factory=dict)

    @classmethod
    def of(cls, source: Source) -> DroppedDuplicates | None:
        return None if source.dedupe is None else cls(DedupeRule.of(source.name, source.topics, source.dedupe))

    @property
    def forgets(self) -> bool:
        """Whether it goes by the time of batches, which nobody knows any more."""
        return self.rule.dedupe.forget_after_s is not None

    def begin(self, batch: BatchRow) -> None:
        """A new generation has a new checkpoint: it remembers nothing of the one before."""
        if batch.generation != self._generation:
            self._generation, self._state = batch.generation, {}

    def is_dropped(self, record: Record) -> bool:
        dedupe = self.rule.dedupe
        epoch = 0 if dedupe.epoch is None else whole_number(part_of(record, dedupe.epoch))
        sequence = whole_number(part_of(record, dedupe.sequence))
        numbered = NumberedRecord(part_of(record, dedupe.sender), sequence, epoch)
        return self.rule.decide(numbered, self._state) is not None


@dataclass(slots=True)
class VersionCheck:
    """Compares versions with the offsets that were read. Pure."""

    stage: StageRows
    output: str
    beyond: list[OffsetRange]  # what may be read at this moment
    has_input_versions: bool
    found: int = 0
    strange: int = 0

    def run(self, documents: Iterable[Versioned]) -> Iterator[Problem]:
        stops = self._stops()
        for document in documents:
            self.found += 1
            incarnation, offset = document.version >> OFFSET_BITS, document.version & ((1 << OFFSET_BITS) - 1)
            if self.has_input_versions and offset >= stops.get(incarnation, 0):
                self.strange += 1
                if self.strange <= MOST_LISTED:
                    told = (f"an offset below {stops.get(incarnation, 0)}", f"{document.name} is of offset {offset}")
                    yield Problem(ProblemKind.STRANGER, self.stage.name, *told, output=self.output)
        if self.strange > MOST_LISTED:
            told = ("none", f"{self.strange - MOST_LISTED} more")
            yield Problem(ProblemKind.STRANGER, self.stage.name, *told, output=self.output)

    def _stops(self) -> dict[int, int]:
        """For each incarnation the highest offset that any partition was read to: a version does not say which one."""
        incarnations = {id: number for ids in self.stage.topics.values() for number, id in enumerate(ids)}
        stops: dict[int, int] = {}
        read = (place for batch in self.stage.batches for place in batch.positions)
        for place in (*read, *self.beyond):
            number = incarnations.get(place.topic_id, 0)
            stops[number] = max(stops.get(number, 0), place.stop)
        return stops
