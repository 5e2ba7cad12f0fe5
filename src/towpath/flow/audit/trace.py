"""Where is this record, and how did it get there?

Answered from the log, the ledger and the error topic, and from the sinks where the flow file is at hand. There is no
row for each healthy record: what a batch has read is known by its offsets. `by_document` and `by_key` find out which
record is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from towpath.blocks.rule import BlockAction, BlockRule, OneRecord
from towpath.db import Database
from towpath.errors import BadValue, OffsetOutOfRange, UnknownFlow, UnknownTopic
from towpath.flow.audit.outputs import MOST_ORDINALS
from towpath.flow.delivery.ids import DeliveryIds
from towpath.flow.delivery.ledger import Batch, BatchSnapshot, BatchState, Gap, Ledger
from towpath.flow.delivery.places import RecordPlace
from towpath.flow.flow import Flow
from towpath.flow.records.errors import ERROR, ErrorRecord
from towpath.flow.sinks.index.reader import IndexReader
from towpath.flow.sinks.sink import FoundDelivery, Sink, SinkReach, UnreadableSink
from towpath.flow.stage.store import StageRow, StageStore, read_stops
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log
from towpath.log.record import Record

SKEW = timedelta(minutes=1)  # by which the clocks of log and database may differ
MOST_COUNTED = 100_000  # records before this one that are counted by reading
MOST_FOUND = 20
LARGEST = 2**63 - 1  # offset that a log can hold
Coordinates = tuple[str, int, int, str | None]  # topic, partition, offset, topic id


class TracedDelivery(NamedTuple):
    """A delivery of the record."""

    output: str
    id: str | None  # of the document, where it is made from the place of the record
    name: str  # how a person finds it


@dataclass(slots=True)
class SinkFindings:
    """What a look into all outputs gave. Exact: each could be read, so what was not found is not there."""

    found: list[TracedDelivery] = field(default_factory=list)
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class SinkTracer:
    """The sinks of a flow, if its file is at hand."""

    flow: Flow | None = None
    log: Log | None = None

    def find(self, stage: StageRow, topic: str, topic_id: str, partition: int, offset: int) -> SinkFindings:
        """Read each output of the stage. An index is asked for ids; of other sinks nothing says where in it to look."""
        look = SinkFindings()
        if self.flow is None or self.log is None:
            return look
        outputs = [each for own in self.flow.stages() if own.name == stage.name for each in own.outputs]
        look.is_exact = bool(outputs)
        for output in outputs:
            ids = DeliveryIds(stage.flow, stage.name, output.name)
            place = f"{topic}:{stage.topics[topic].index(topic_id)}:{partition}:{offset}"
            wanted = {
                ids.of(topic_id, partition, offset, ordinal): f"{place}:{ordinal}" if ordinal else place
                for ordinal in range(MOST_ORDINALS)
            }
            for each in _deliveries(self.log, output.sink, stage, ids, look, list(wanted.values())):
                if each.delivery_id in wanted:
                    id = wanted[each.delivery_id] if output.sink.id is None else None
                    look.found.append(TracedDelivery(output.name, id, each.name))
        return look


def _deliveries(
    log: Log, sink: Sink, stage: StageRow, ids: DeliveryIds, look: SinkFindings, names: Sequence[str]
) -> Iterator[FoundDelivery]:
    from towpath.flow.sinks.index.reader import CoordinatesReader
    from towpath.flow.sinks.registry import open_reader  # sinks need their own packages

    reader = open_reader(sink, log, stage.topics, ids)
    if isinstance(reader, UnreadableSink):
        look.is_exact = False
        return
    try:
        if isinstance(reader, IndexReader):  # its ids are the flow's own: nobody knows which one to look for
            look.is_exact = False
            return
        yield from reader.named(names) if isinstance(reader, CoordinatesReader) else reader.delivered()
        look.is_exact = look.is_exact and reader.reach is SinkReach.ALL
    finally:
        reader.close()


@dataclass(frozen=True, slots=True)
class Trace:
    """What is known about one record. `place` is None where it cannot be told, or where there is no record."""

    topic: str
    partition: int
    offset: int
    stage: str
    place: RecordPlace | None
    now: str  # in words
    record: Record | None = None
    readings: tuple[Batch, ...] = ()  # oldest first
    failures: tuple[TracedFailure, ...] = ()
    found: tuple[TracedDelivery, ...] = ()  # in the sinks
    gaps: tuple[Gap, ...] = ()
    before: int | None = None  # records that the flow will read first


@dataclass(frozen=True, slots=True)
class TracedFailure:
    """One error record of the traced record."""

    at: str  # its own place in the error topic
    time: datetime
    record: ErrorRecord


@dataclass(slots=True)
class Tracer:
    """Traces records of one flow."""

    database: Database
    log: Log
    flow: str
    sinks: SinkTracer = field(default_factory=SinkTracer)
    error_topic: str | None = None

    def trace(self, topic: str, partition: int, offset: int, topic_id: str | None = None) -> list[Trace]:
        """One answer for each stage that reads the topic; `topic_id` for one that was deleted and made again."""
        stages = self._stages(topic)
        id = topic_id or self._id(topic, stages[0])
        record = self._record(topic, partition, offset, id)
        return [self._of(stage, Trace(topic, partition, offset, stage.name, None, "", record), id) for stage in stages]

    def topic_id(self, topic: str, incarnation: int) -> str:
        """The id of the topic at the time of which a document id tells."""
        ids = self._stages(topic)[0].topics[topic]
        if incarnation >= len(ids):
            raise BadValue(
                f"topic {topic!r} was made {len(ids)} times as far as {self.flow} knows, not {incarnation + 1}"
            )
        return ids[incarnation]

    def current_id(self, topic: str) -> str:
        """The id of the topic as it is now, or as the flow has known it last."""
        return self._id(topic, self._stages(topic)[0])

    def _stages(self, topic: str) -> list[StageRow]:
        with self.database.read() as tx:
            known = StageStore(self.database).list(tx)
        mine = [stage for stage in known if stage.flow == self.flow]
        if not mine:
            raise UnknownFlow(self.flow, {stage.flow for stage in known})
        found = [stage for stage in mine if topic in stage.topics]
        if not found:
            names = sorted({name for stage in mine for name in stage.topics})
            raise BadValue(f"{self.flow} does not read topic {topic!r}; it reads {', '.join(names) or 'nothing yet'}")
        return found

    def _id(self, topic: str, stage: StageRow) -> str:
        try:
            return self.log.topic(topic).id
        except UnknownTopic:
            return stage.topics[topic][-1]

    def _record(self, topic: str, partition: int, offset: int, id: str) -> Record | None:
        try:
            if self.log.topic(topic).id != id:
                return None
            return self.log.record(topic, partition, offset)
        except (OffsetOutOfRange, UnknownTopic):
            return None

    # One stage

    def _of(self, stage: StageRow, trace: Trace, id: str) -> Trace:
        ledger = Ledger(self.database)
        with self.database.read() as tx:
            found = ledger.readers(tx, stage.flow, stage.name, (id, trace.partition), trace.offset)
            readings = tuple(reversed(found))  # more than one after a reset
            gaps = tuple(
                gap
                for gap in ledger.gaps(tx, stage.flow, stage.name)
                if (gap.topic_id, gap.partition) == (id, trace.partition) and gap.start <= trace.offset < gap.stop
            )
        failures = tuple(self._failures(trace, id, readings)) if readings else ()
        trace = replace(trace, readings=readings, gaps=gaps, failures=failures)
        done = [batch for batch in readings if batch.state is BatchState.COMMITTED]
        if gaps:
            return replace(trace, place=RecordPlace.SKIPPED, now=f"skipped: {gaps[-1].reason}")
        if done:
            return self._read_by(stage, trace, id, done[-1])
        return self._unread(stage, trace, id)

    def _failures(self, trace: Trace, id: str, readings: tuple[Batch, ...]) -> Iterator[TracedFailure]:
        """Its error records. They were appended while its batches ran, so only that time is read."""
        name = FlowTopics.of(self.flow, self.error_topic).errors
        since = min(batch.started_at for batch in readings) - SKEW
        ends = [batch.committed_at for batch in readings]
        until = None if None in ends else max(end for end in ends if end is not None) + SKEW
        try:
            starts = self.log.offsets_at(name, max(0, int(since.timestamp() * 1000)))
        except UnknownTopic:
            return
        for number, start in sorted(starts.items()):
            for record in self.log.read(name, number, start):
                at = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
                if until is not None and at > until:
                    break
                seen = _error(record)
                if seen is None or (seen.flow, seen.kind) != (self.flow, ERROR):
                    continue
                if (seen.topic_id, seen.partition, seen.offset) == (id, trace.partition, trace.offset):
                    yield TracedFailure(f"{name}/{number}/{record.offset}", at, seen)

    def _read_by(self, stage: StageRow, trace: Trace, id: str, batch: Batch) -> Trace:
        """The last batch that was committed with it decides."""
        if any(seen.record.hash == batch.hash for seen in trace.failures):
            return replace(trace, place=RecordPlace.FAILED, now="failed: it lies in the error topic")
        if (rule := _blocked_by(batch, trace.record)) is not None:
            return replace(trace, place=RecordPlace.BLOCKED, now=f"blocked: {rule.reason}")
        if trace.record is None and self._is_hole(trace, id):
            return replace(trace, now="this offset holds no record: offsets have holes")
        look = self.sinks.find(stage, trace.topic, id, trace.partition, trace.offset)
        if look.found:
            return replace(trace, place=RecordPlace.LOADED, found=tuple(look.found), now="loaded")
        loaded, filtered, doubled = (_count(batch, name) for name in ("loaded", "filtered", "duplicate"))
        if trace.record is None and _count(batch, RecordPlace.BLOCKED):
            return replace(
                trace, now="loaded, filtered or blocked: it is deleted, and rules have kept some of its batch out"
            )
        if not filtered and not doubled:
            return replace(trace, place=RecordPlace.LOADED, now="loaded: its batch has filtered nothing")
        if doubled and (not loaded or look.is_exact):
            if not filtered:
                return replace(trace, place=RecordPlace.DUPLICATE, now="dropped: its sender had sent it before")
            return replace(trace, now="filtered, or dropped because its sender had sent it before")
        if not loaded or look.is_exact:
            steps = batch.counts.get("filtered", {})
            names = " or ".join(steps) if isinstance(steps, dict) else ""
            return replace(trace, place=RecordPlace.FILTERED, now=f"filtered by {names or 'a step'}")
        return replace(trace, now=f"loaded or filtered: its batch has loaded {loaded:,} and filtered {filtered:,}")

    def _is_hole(self, trace: Trace, id: str) -> bool:
        try:
            same = self.log.topic(trace.topic).id == id
            return same and self.log.starts(trace.topic).get(trace.partition, 0) <= trace.offset
        except UnknownTopic:
            return False

    def _unread(self, stage: StageRow, trace: Trace, id: str) -> Trace:
        topic, number, offset = trace.topic, trace.partition, trace.offset
        at_work = [batch for batch in trace.readings if batch.state is not BatchState.SUPERSEDED]
        if at_work:
            return replace(
                trace, place=RecordPlace.IN_FLIGHT, now=f"in flight: batch {at_work[-1].batch_id} is at work on it"
            )
        try:
            start, end = self.log.starts(topic).get(number, 0), self.log.ends(topic).get(number)
        except UnknownTopic:
            return replace(trace, now="the topic is gone, and no batch has read this offset")
        if end is None:
            return replace(trace, now=f"the topic has no partition {number}")
        if offset >= end:
            return replace(trace, now=f"never arrived: {topic}/{number} ends before {end}")
        position = read_stops(self.database, stage).get((id, number), 0)
        if trace.record is None:
            gone = "deleted, and no batch has read it" if offset < start else "this offset holds no record"
            return replace(trace, now=gone)
        if offset < position:
            return replace(trace, now=f"not read: the flow begins at {position} here")
        return self._waiting(trace, max(position, start))

    def _waiting(self, trace: Trace, first: int) -> Trace:
        """In flight, and how many are before it."""
        last = min(trace.offset, first + MOST_COUNTED)
        before = sum(1 for _ in self.log.read(trace.topic, trace.partition, first, last)) if first < last else 0
        more = " at least" if last < trace.offset else ""
        count = "1 record" if before == 1 else f"{before:,} records"
        told = f"in flight: {count}{more} before it"
        return replace(trace, place=RecordPlace.IN_FLIGHT, before=before, now=told)


def _error(record: Record) -> ErrorRecord | None:
    try:
        return ErrorRecord.read(record)
    except (KeyError, ValueError):
        return None


def _blocked_by(batch: Batch, record: Record | None) -> BlockRule | None:
    """The block rule that has kept a record out: asked again, as it was asked when the batch was read."""
    blocks = BatchSnapshot.of_value(batch.units).blocks
    if record is None or not blocks:
        return None
    rule = blocks.caught_in_topics(OneRecord.of(record)).get(0)
    return rule if rule is not None and rule.action is BlockAction.IGNORE else None


def _count(batch: Batch, name: str) -> int:
    found: Any = batch.counts.get(name, 0)
    return sum(found.values()) if isinstance(found, dict) else int(found)


def by_document(tracer: Tracer, id: str) -> Coordinates:
    """Where the record is of which a document was made; raises `BadValue` for an id that does not say so."""
    from towpath.flow.sinks.index.reader import parse_coordinates  # sinks need their own packages

    place = parse_coordinates(id)
    if place is None:
        raise BadValue(f"{id!r} is not made from a record's place (topic:incarnation:partition:offset)")
    topic, incarnation, number, offset, _ = place
    if max(number, offset) > LARGEST:
        raise BadValue(f"{id!r} names a place that no topic has")
    return topic, number, offset, tracer.topic_id(topic, incarnation)


def by_key(log: Log, topic: str, key: bytes, most: int) -> WithKey:
    """Nothing says where they are, so the topic is read: the last offsets of it, `most` in all."""
    starts, ends = log.starts(topic), log.ends(topic)
    share = max(1, most // max(1, len(ends)))
    first = {number: max(starts.get(number, 0), end - share) for number, end in ends.items()}
    found = [
        each for number, end in ends.items() for each in log.read(topic, number, first[number], end) if each.key == key
    ]
    found.sort(key=lambda each: each.timestamp_ms)
    is_cut = any(first[number] > starts.get(number, 0) for number in ends)
    return WithKey(found[-MOST_FOUND:], len(found), share if is_cut else None)


class WithKey(NamedTuple):
    """The newest records of a key, oldest first."""

    records: list[Record]
    total: int  # those that were found, also those that are not among the newest
    offsets: int | None  # that were read of each partition; None: all
