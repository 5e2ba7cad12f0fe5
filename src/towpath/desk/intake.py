"""The intake: error records and outcomes of all flows become cases and settle them, exactly once.

docs/explanation/desk.md, 1 to 4. Any number of intakes may run: of two that read the same portion one finds the
position moved, and begins anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from towpath.db import Database, Transaction
from towpath.desk.ahead import Ahead
from towpath.desk.outcomes import OutcomeTaking
from towpath.desk.policy_store import Origin, PolicyStore
from towpath.desk.position_store import DeskPosition, PositionStore, Reading
from towpath.desk.taking import ErrorTaking, Taken, read_portion
from towpath.desk.told import Told
from towpath.errors import CommitUnknown, DatabaseError, DatabaseUnavailable, TowpathError, UnknownTopic
from towpath.events import Event, EventKind, Events
from towpath.flow.stage_store import StageStore
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log
from towpath.log.record import Record
from towpath.service import Result, Service

logger = logging.getLogger(__name__)

RECORDS_AT_ONCE = {"sqlite": 1_000, "postgres": 4_000}  # of one transaction; on SQLite it holds up all other writers
BYTES_AT_ONCE = 4 << 20
PORTIONS_AT_ONCE = 16  # of one partition, before the others have their turn


class Source(NamedTuple):
    """A topic that is read for a flow, and the other flows that have the same."""

    flow: str
    topic: str
    reading: Reading
    others: tuple[str, ...] = ()


class Portion(NamedTuple):
    """What is taken in together: records, and of an error topic what they tell."""

    records: list[Record]
    told: list[Told]


class Intake(Service):
    """Reads the error topics and the topics of outcomes of all flows."""

    name = "desk intake"

    def __init__(
        self,
        database: Database,
        log: Callable[[], Log],
        errors: ErrorTaking,
        outcomes: OutcomeTaking,
        events: Events,
        rest_s: float,
        record: Callable[[Transaction, Event], None],
    ) -> None:
        super().__init__(events)
        self._database = database
        self._log = log
        self._errors = errors
        self._outcomes = outcomes
        self._rest_s = rest_s
        self._record = record
        self._stages = StageStore(database)
        self._policies = PolicyStore(database)
        self._positions = PositionStore(database)
        self._most = RECORDS_AT_ONCE[database.dialect]
        self._ahead = Ahead()

    def run_once(self) -> Result:
        """One turn for every partition. A topic that cannot be read holds up no other."""
        done, failed = 0, None
        for source in self.sources():
            try:
                done += self._read(source)
            except TowpathError as error:
                logger.warning("the desk could not read %s: %s", source.topic, error)
                failed = error
        if failed is not None:
            raise failed
        return Result(done, 0 if done else self._rest_s)

    def sources(self) -> list[Source]:
        """What there is to read: two topics of each flow that has ever run here."""
        with self._database.read() as tx:
            flows = sorted({stage.flow for stage in self._stages.list(tx)})
            declared = {each.flow: each.error_topic for each in self._policies.latest(tx) if each.origin is Origin.CODE}
        topics = {flow: FlowTopics.of(flow, declared.get(flow)) for flow in flows}
        return [
            source
            for flow, names in topics.items()
            for source in (
                Source(flow, names.outcomes, Reading.OUTCOMES),
                Source(
                    flow,
                    names.errors,
                    Reading.ERRORS,
                    tuple(each for each in flows if each != flow and topics[each].errors == names.errors),
                ),
            )
        ]

    def _read(self, source: Source) -> int:
        log = self._log()
        try:
            topic = log.topic(source.topic)
            starts, ends = log.starts(source.topic), log.ends(source.topic)
        except UnknownTopic:
            return 0  # the flow has not begun
        at = self._where(source, topic.id, starts)
        return sum(
            self._partition(log, source, at[number], starts[number], end)
            for number, end in sorted(ends.items())
            if number in at and at[number].position < end and not self.is_stopping
        )

    def _where(self, source: Source, topic_id: str, starts: dict[int, int]) -> dict[int, DeskPosition]:
        """Where to go on in each partition; a new one begins at its start."""
        with self._database.read() as tx:
            found = self._found(tx, source, topic_id)
        new = set(starts) - set(found)
        if not new:
            return found
        with self._database.transaction() as tx:
            for number in sorted(new):
                begun = DeskPosition(source.flow, source.topic, topic_id, number, source.reading, starts[number])
                self._positions.begin(tx, begun)
            return self._found(tx, source, topic_id)

    def _found(self, tx: Transaction, source: Source, topic_id: str) -> dict[int, DeskPosition]:
        return {
            each.partition: each
            for each in self._positions.of_flow(tx, source.flow)
            if each.topic_id == topic_id and each.reading is source.reading
        }

    def _partition(self, log: Log, source: Source, at: DeskPosition, start: int, end: int) -> int:
        """Act 1: read on from where the table says; returns how many records were taken in."""
        if at.position < start:
            at = self._skip(at, start)
        done, portions = 0, 0
        records = in_portions(log.read(source.topic, at.partition, at.position, end), self._most)
        with self._ahead.read(_told(source, at, portion) for portion in records) as ahead:
            for portion in ahead:
                at = self._take(source, at, portion)
                done, portions = done + len(portion.records), portions + 1
                if portions == PORTIONS_AT_ONCE or self.is_stopping:
                    return done
        if at.position < end:  # offsets that hold nothing
            with self._database.transaction() as tx:
                self._positions.move(tx, at, end)
        return done

    def _take(self, source: Source, at: DeskPosition, portion: Portion) -> DeskPosition:
        to = portion.records[-1].offset + 1
        if source.reading is Reading.OUTCOMES:
            resolved = self._outcomes.take(at, portion.records, to)
            if resolved:
                self.events.publish(Event(EventKind.CASES_RESOLVED, at.flow, data={"cases": resolved}))
        else:
            taken = self._taken(source, at, portion, to)
            if any(taken):
                self.events.publish(Event(EventKind.CASES_TAKEN, at.flow, data=taken._asdict()))
        return at._replace(position=to)

    def _taken(self, source: Source, at: DeskPosition, portion: Portion, to: int) -> Taken:
        """A record that the database cannot take as it is becomes a stray: it must not hold up all behind it."""
        records = portion.records
        try:
            return self._errors.take(at, portion.told, to)
        except (DatabaseUnavailable, CommitUnknown):
            raise
        except DatabaseError as error:
            if len(records) == 1:
                return self._errors.take(at, read_portion(at, records, source.others, str(error)), to)
        half = len(records) // 2
        middle = at._replace(position=records[half].offset)
        first = self._taken(source, at, _told(source, at, records[:half]), middle.position)
        second = self._taken(source, middle, _told(source, at, records[half:]), to)
        return Taken(*(one + other for one, other in zip(first, second, strict=True)))

    def on_stop(self) -> None:
        self._ahead.close()

    def _skip(self, at: DeskPosition, start: int) -> DeskPosition:
        """Somebody has deleted records that the desk had not read. That is told: there is nothing left to read."""
        data = {"topic": at.topic, "partition": at.partition, "from": at.position, "to": start}
        with self._database.transaction() as tx:
            self._positions.move(tx, at, start)
            self._record(tx, Event(EventKind.ERRORS_MISSED, at.flow, why="deleted from the topic", data=data))
        return at._replace(position=start)


def _told(source: Source, at: DeskPosition, records: list[Record]) -> Portion:
    told = read_portion(at, records, source.others) if source.reading is Reading.ERRORS else []
    return Portion(records, told)


def in_portions(records: Iterable[Record], most: int, most_bytes: int = BYTES_AT_ONCE) -> Iterator[list[Record]]:
    """Lists of moderate size, as the records come; a large record may make one alone."""
    portion: list[Record] = []
    size = 0
    for record in records:
        bytes_ = len(record.value or b"") + len(record.key or b"")
        if portion and (len(portion) == most or size + bytes_ > most_bytes):
            yield portion
            portion, size = [], 0
        portion.append(record)
        size += bytes_
    if portion:
        yield portion
