"""The intake: error records and outcomes of all flows become cases and settle them, exactly once.

docs/explanation/desk.md, 1 to 4. Any number of intakes may run: of two that read the same portion, one finds the
position moved and begins anew. While one portion is written, the next is read and parsed by another thread.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind, Events
from towpath.core.service import RoundResult, Service
from towpath.db import Database, Transaction
from towpath.desk.cases.model import Case, CaseState
from towpath.desk.cases.store import CaseStore, is_case_id
from towpath.desk.intake.error_reader import ParsedError
from towpath.desk.intake.ingest import (
    DeskPosition,
    DeskPositionStore,
    ErrorIngest,
    IngestResult,
    ReadPurpose,
    read_portion,
)
from towpath.desk.policies.store import PolicyStore
from towpath.desk.replay.outbox import TOWPATH, Parking
from towpath.errors import CommitUnknown, DatabaseError, DatabaseUnavailable, TowpathError, UnknownTopic
from towpath.flow.records.reentry import OutcomeRecord, ReplayFate
from towpath.flow.stage.store import StageStore
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log
from towpath.log.record import Record

T = TypeVar("T")

logger = logging.getLogger(__name__)
RECORDS_AT_ONCE = {"sqlite": 1_000, "postgres": 4_000}  # of one transaction; on SQLite it holds up all other writers
BYTES_AT_ONCE = 4 << 20
PORTIONS_AT_ONCE = 16  # of one partition, before the others have their turn

LOADED = "loaded"


class DeskIntake(Service):
    """Reads the error topics and the topics of outcomes of all flows."""

    name = "desk intake"

    def __init__(
        self,
        database: Database,
        log: Callable[[], Log],
        errors: ErrorIngest,
        outcomes: OutcomeIngest,
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
        self._positions = DeskPositionStore(database)
        self._most = RECORDS_AT_ONCE[database.dialect]
        self._prefetcher = Prefetcher()

    def run_once(self) -> RoundResult:
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
        return RoundResult(done, 0 if done else self._rest_s)

    def sources(self) -> list[IntakeTopic]:
        """What there is to read: two topics of each flow that has ever run here."""
        with self._database.read() as tx:
            flows = sorted({stage.flow for stage in self._stages.list(tx)})
            declared = self._policies.error_topics(tx)
        topics = {flow: FlowTopics.of(flow, declared.get(flow)) for flow in flows}
        return [
            source
            for flow, names in topics.items()
            for source in (
                IntakeTopic(flow, names.outcomes, ReadPurpose.OUTCOMES),
                IntakeTopic(
                    flow,
                    names.errors,
                    ReadPurpose.ERRORS,
                    tuple(each for each in flows if each != flow and topics[each].errors == names.errors),
                ),
            )
        ]

    def _read(self, source: IntakeTopic) -> int:
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

    def _where(self, source: IntakeTopic, topic_id: str, starts: dict[int, int]) -> dict[int, DeskPosition]:
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

    def _found(self, tx: Transaction, source: IntakeTopic, topic_id: str) -> dict[int, DeskPosition]:
        return {
            each.partition: each
            for each in self._positions.of_flow(tx, source.flow)
            if each.topic_id == topic_id and each.reading is source.reading
        }

    def _partition(self, log: Log, source: IntakeTopic, at: DeskPosition, start: int, end: int) -> int:
        """Act 1: read on from where the table says; returns how many records were taken in."""
        if at.position < start:
            at = self._skip(at, start)
        done, portions = 0, 0
        records = in_portions(log.read(source.topic, at.partition, at.position, end), self._most)
        with self._prefetcher.read(_portion_of(source, at, portion) for portion in records) as ahead:
            for portion in ahead:
                at = self._take(source, at, portion)
                done, portions = done + len(portion.records), portions + 1
                if portions == PORTIONS_AT_ONCE or self.is_stopping:
                    return done
        if at.position < end:  # offsets that hold nothing
            with self._database.transaction() as tx:
                self._positions.move(tx, at, end)
        return done

    def _take(self, source: IntakeTopic, at: DeskPosition, portion: IntakePortion) -> DeskPosition:
        to = portion.records[-1].offset + 1
        if source.reading is ReadPurpose.OUTCOMES:
            resolved = self._outcomes.take(at, portion.records, to)
            if resolved:
                self.events.publish(Event(EventKind.CASES_RESOLVED, at.flow, data={"cases": resolved}))
        else:
            taken = self._ingest(source, at, portion, to)
            if any(taken):
                self.events.publish(Event(EventKind.CASES_TAKEN, at.flow, data=taken._asdict()))
        return at._replace(position=to)

    def _ingest(self, source: IntakeTopic, at: DeskPosition, portion: IntakePortion, to: int) -> IngestResult:
        """A record that the database cannot take as it is becomes a stray: it must not hold up all behind it."""
        records = portion.records
        try:
            return self._errors.take(at, portion.errors, to)
        except (DatabaseUnavailable, CommitUnknown):
            raise
        except DatabaseError as error:
            if len(records) == 1:
                return self._errors.take(at, read_portion(at, records, source.others, str(error)), to)
        half = len(records) // 2
        middle = at._replace(position=records[half].offset)
        first = self._ingest(source, at, _portion_of(source, at, records[:half]), middle.position)
        second = self._ingest(source, middle, _portion_of(source, at, records[half:]), to)
        return IngestResult(*(one + other for one, other in zip(first, second, strict=True)))

    def on_stop(self) -> None:
        self._prefetcher.close()

    def _skip(self, at: DeskPosition, start: int) -> DeskPosition:
        """Records were deleted before the desk read them: go on behind them, and record an event."""
        data = {"topic": at.topic, "partition": at.partition, "from": at.position, "to": start}
        with self._database.transaction() as tx:
            self._positions.move(tx, at, start)
            self._record(tx, Event(EventKind.ERRORS_MISSED, at.flow, why="deleted from the topic", data=data))
        return at._replace(position=start)


class IntakeTopic(NamedTuple):
    """A topic that is read for a flow, and the other flows that have the same."""

    flow: str
    topic: str
    reading: ReadPurpose
    others: tuple[str, ...] = ()


class IntakePortion(NamedTuple):
    """What is taken in together: records, and of an error topic what they tell."""

    records: list[Record]
    errors: list[ParsedError]


def _portion_of(source: IntakeTopic, at: DeskPosition, records: list[Record]) -> IntakePortion:
    errors = read_portion(at, records, source.others) if source.reading is ReadPurpose.ERRORS else []
    return IntakePortion(records, errors)


def in_portions(records: Iterable[Record], most: int) -> Iterator[list[Record]]:
    """Lists of moderate size, as the records come; a large record may make one alone."""
    portion: list[Record] = []
    size = 0
    for record in records:
        bytes_ = len(record.value or b"") + len(record.key or b"")
        if portion and (len(portion) == most or size + bytes_ > BYTES_AT_ONCE):
            yield portion
            portion, size = [], 0
        portion.append(record)
        size += bytes_
    if portion:
        yield portion


class Prefetcher:
    """Reads one ahead, in a thread of its own. What an iterator raises is raised where the next one is awaited."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def read(self, source: Generator[T]) -> Iterator[Iterator[T]]:
        """What the source gives, one ahead. At the end of the block the source is closed: nothing of it runs then."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "desk intake, reading")
        pool = self._pool
        under_way: list[Future[T | None]] = [pool.submit(next, source, None)]
        try:
            yield self._each(pool, source, under_way)
        finally:
            under_way[0].cancel()
            pool.submit(source.close).result()

    def _each(self, pool: ThreadPoolExecutor, source: Generator[T], under_way: list[Future[T | None]]) -> Iterator[T]:
        while (found := under_way[0].result()) is not None:
            under_way[0] = pool.submit(next, source, None)
            yield found

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


class OutcomeIngest:
    """Takes portions in, each in one transaction with the position that comes after it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cases = CaseStore(database)
        self._positions = DeskPositionStore(database)
        self._parking = Parking(database)

    def take(self, at: DeskPosition, records: Sequence[Record], to: int) -> int:
        """Returns how many cases are resolved."""
        outcomes = list(filter(None, map(_read, records)))
        resolved = 0
        with self._database.transaction() as tx:
            self._positions.move(tx, at, to, len(outcomes))
            settling = [each for each in outcomes if each.flow == at.flow and each.fate is not ReplayFate.FAILED]
            known = self._cases.lock(tx, sorted({each.correlation for each in settling}))
            for why, ids in _resolved(settling, known).items():
                moved = self._cases.move(tx, ids, CaseState.RESOLVED, frm=(CaseState.REPLAYING,), who=TOWPATH, why=why)
                self._parking.release(tx, moved)
                resolved += len(moved)
            crash.here(CrashPoint.DESK_OUTCOMES_BEFORE_COMMIT)
        crash.here(CrashPoint.DESK_OUTCOMES_AFTER_COMMIT)
        return resolved


def _read(record: Record) -> OutcomeRecord | None:
    """What is no outcome of a case is nobody's: it says nothing about any record."""
    try:
        found = OutcomeRecord.read(record)
    except (KeyError, ValueError):
        return None
    return found if is_case_id(found.correlation) else None


def _resolved(outcomes: Sequence[OutcomeRecord], known: dict[str, Case]) -> dict[str, list[str]]:
    """The cases that are done, by why. An outcome of another attempt than the one that is out says nothing."""
    found: dict[str, list[str]] = defaultdict(list)
    for each in outcomes:
        case = known.get(each.correlation)
        if case is not None and case.flow == each.flow and each.attempt == case.next_attempt:
            found[LOADED if each.fate is ReplayFate.LOADED else f"filtered by {each.step}"].append(case.id)
    return found
