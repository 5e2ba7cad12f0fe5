"""Which documents an index with ids of the flow's own must hold, where its records alone say so: no step in between.

Of every record that a committed batch has read and that did not fail, the id is made anew. A document with that id must
be there, with the record's version or a higher one: a newer record of the id may have taken its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from struct import Struct
from typing import Any

from towpath.access.barrier import OneRecord
from towpath.errors import OffsetOutOfRange
from towpath.flow.audit.arrival import is_arrival
from towpath.flow.audit.batch_row import BatchRow, StageRows
from towpath.flow.audit.buckets import BUCKETS, Buckets
from towpath.flow.audit.counting import TELL_EVERY, Progress
from towpath.flow.audit.dropped import Dropped, in_order
from towpath.flow.audit.errors import ErrorsFound
from towpath.flow.audit.problem import Problem, ProblemKind
from towpath.flow.audit.view import topic_state
from towpath.flow.delivery import version_of
from towpath.flow.nodes import Output, Source
from towpath.flow.positions import Range
from towpath.flow.sinks.index import INPUT, IndexSink
from towpath.flow.template import Template
from towpath.flow.text.reading import Unreadable, read_document
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
    dropped: Dropped | None = None
    is_blind: bool = False  # records are gone by which others are known to be duplicates
    _places: list[tuple[BatchRow, Range]] = field(default_factory=list)
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
        return cls(stage, output.name, source, sink, sink.id, Dropped.of(source))

    def read(self, log: Log, errors: ErrorsFound, progress: Progress = lambda done: None) -> None:
        """Make the ids of all records that were loaded and can still be read."""
        fill = self.id.filler()
        for batch in self.stage.committed:
            failed = errors.marks.get(batch.hash, {})
            if self.dropped is not None:
                self.dropped.begin(batch)
            for place in in_order(batch):
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

    def _made(self, record: Record, place: Range, fill: Any) -> tuple[str, int] | None:
        """Id and version. None for what cannot have been loaded: that it is missing among the errors is told there."""
        try:
            document = read_document(record.value, duplicates=self.source.duplicates)
            return fill(document), self._version(document, place, record.offset)
        except (Unreadable, TypeError, ValueError, KeyError):
            return None

    def _version(self, document: Mapping[str, Any], place: Range, offset: int) -> int:
        if self.sink.version == INPUT:
            return version_of(list(self.stage.topics[place.topic]).index(place.topic_id), offset)
        return 0 if self.sink.version is None else int(document[self.sink.version])


def _key(id: str) -> bytes:
    return sha256(id.encode(errors="surrogatepass")).digest()


def _is_whole(log: Log, place: Range) -> bool:
    topic = topic_state(log, place.topic)
    return topic.id == place.topic_id and topic.starts.get(place.partition, place.stop) <= place.start


def _records(log: Log, place: Range) -> Iterator[Record]:
    """What is left of a range: of what was deleted since, nothing can be said."""
    topic = topic_state(log, place.topic)
    start = max(place.start, topic.starts.get(place.partition, place.stop))
    if topic.id == place.topic_id and start < place.stop:
        try:
            yield from log.read(place.topic, place.partition, start, place.stop)
        except OffsetOutOfRange:
            return
