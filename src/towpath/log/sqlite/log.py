"""The log as tables of a SQLite file, alone or beside the queue and the rest of the control plane.

A transaction is collected in memory and written in one short write transaction at its end. Old records are deleted in
two steps: first they are gone for every reader, then, portion by portion, they free their room.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind, Events
from towpath.core.service import RoundResult, Service
from towpath.db import Database, Transaction
from towpath.errors import (
    BadValue,
    CommitUnknown,
    DatabaseUnavailable,
    LogError,
    LogUnavailable,
    OffsetOutOfRange,
    PartlyAppended,
    TopicReplaced,
    UnknownTopic,
)
from towpath.log.log import Offsets, Positions, check_positions
from towpath.log.portions import Portion, check_transaction, portions
from towpath.log.record import NewRecord, Position, Record, check_partitions, check_time, decode_headers
from towpath.log.sqlite.store import Partition, PositionStore, RecordStore, TopicStore, log_failures
from towpath.log.topic import (
    OFFSET_BITS,
    Topic,
    check_group,
    check_partition_count,
    check_topic_name,
    check_user_group,
    chosen_retention,
    sequence_group,
)
from towpath.settings import LogSettings


class SqliteLog:
    """Topics in a SQLite database. With `tx` an append joins the caller's own transaction on the same file."""

    def __init__(self, database: Database, settings: LogSettings, *, owns_database: bool = False) -> None:
        self.url = database.url
        self._owns_database = owns_database
        self.database = database
        self.settings = settings
        self.topic_store = TopicStore(database)
        self.record_store = RecordStore(database, self.topic_store)
        self.position_store = PositionStore(database, self.topic_store)
        self._turn = random.randrange(1 << 16)  # noqa: S311 - which partition is first is no secret

    # Topics

    def create_topic(
        self, name: str, partitions: int | None = None, *, retention_s: float | str | None = None
    ) -> Topic:
        check_topic_name(name)
        count = check_partition_count(self.settings.partitions if partitions is None else partitions)
        age_s = chosen_retention(retention_s, self.settings)
        with log_failures(), self.database.transaction() as tx:
            topic = self.topic_store.create(tx, name, count, age_s)
            crash.here(CrashPoint.TOPIC_BEFORE_COMMIT)
        crash.here(CrashPoint.TOPIC_AFTER_COMMIT)
        return topic

    def topic(self, name: str) -> Topic:
        with log_failures(), self.database.glance() as tx:
            return self.topic_store.read(tx, name)

    def topics(self) -> list[Topic]:
        with log_failures(), self.database.glance() as tx:
            return self.topic_store.all(tx)

    def delete_topic(self, name: str) -> None:
        with log_failures():
            with self.database.transaction() as tx:
                topic_id = self.topic_store.mark_deleted(tx, name)
                self.position_store.forget_topic(tx, topic_id)
                crash.here(CrashPoint.TOPIC_BEFORE_COMMIT)
            crash.here(CrashPoint.TOPIC_AFTER_COMMIT)
            self.free_room()

    def add_partitions(self, name: str, partitions: int) -> Topic:
        check_partition_count(partitions)
        with log_failures(), self.database.transaction() as tx:
            return self.topic_store.add_partitions(tx, name, partitions)

    # Appending

    def append(self, topic: str, records: Sequence[NewRecord], tx: Transaction | None = None) -> list[Position]:
        if tx is not None:
            self.check_joined(tx)
            parts = list(portions(records, self.settings.max_record_bytes))
            with tx.part():
                written = [self._write(tx, topic, records[part.start : part.stop]) for part in parts]
            return [position for positions in written for position in positions]
        done: list[Position] = []
        check_partitions(topic, records, self.topic(topic).partitions)
        for part in portions(records, self.settings.max_record_bytes):
            try:
                with self.database.transaction() as own:
                    positions = self._write(own, topic, records[part.start : part.stop])
                    crash.here(CrashPoint.APPEND_BEFORE_COMMIT)
            except CommitUnknown as error:
                raise PartlyAppended(range(part.start), part, len(records), error) from error
            except DatabaseUnavailable as error:
                if not done:
                    raise LogUnavailable(str(error)) from error
                raise PartlyAppended(range(part.start), (), len(records), error) from error
            except UnknownTopic as error:  # deleted since the last portion
                if not done:
                    raise
                raise PartlyAppended(range(part.start), (), len(records), error) from error
            crash.here(CrashPoint.APPEND_AFTER_COMMIT)
            done += positions
        return done

    def producer(self, name: str) -> SqliteProducer:
        check_group(name)
        with log_failures(), self.database.transaction() as tx:
            epoch = self.position_store.open_producer(tx, name)
        crash.here(CrashPoint.PRODUCER_OPENED)
        return SqliteProducer(self, name, epoch)

    def check_joined(self, tx: Transaction) -> None:
        """The caller's transaction has to be one that writes to the database in which the log is."""
        if not tx.writes_to(self.database):
            raise BadValue(f"tx is not a write transaction of {self.url}, where this log is; nothing was appended")

    def write(self, tx: Transaction, topic: str, records: Sequence[NewRecord], sequence: int) -> list[Position]:
        """Append in an open transaction; readers that wait for the topic are woken when it commits."""
        positions = self.record_store.append(tx, topic, records, self.database.now() // 1000, sequence)
        tx.after_commit(lambda: self.database.wakeups.ring([wakeup_name(topic)]))
        return positions

    def _write(self, tx: Transaction, topic: str, records: Sequence[NewRecord]) -> list[Position]:
        positions = self.write(tx, topic, records, self._turn)
        self._turn += len(records)
        return positions

    # Reading

    def starts(self, topic: str) -> dict[int, int]:
        return {partition.number: partition.start for partition in self._partitions(topic)}

    def ends(self, topic: str) -> dict[int, int]:
        return {partition.number: partition.end for partition in self._partitions(topic)}

    def written_ends(self, topic: str) -> dict[int, int]:
        return self.ends(topic)  # nothing uncommitted can be seen in the file

    def read(self, topic: str, partition: int, start: int, stop: int | None = None) -> Iterator[Record]:
        found = self._partition_at(topic, partition, start)
        end = found.end if stop is None else min(stop, found.end)
        return self._records(topic, found, found.base + start, found.base + end)

    def record(self, topic: str, partition: int, offset: int) -> Record | None:
        found = self._partition_at(topic, partition, offset)
        if offset == found.end:
            raise OffsetOutOfRange(topic, partition, offset, found.start, found.end)
        return next(self._records(topic, found, found.base + offset, found.base + offset + 1), None)

    def undecided(self, topic: str, partition: int) -> Iterator[Record]:
        """Nothing: an open transaction of the file can be seen by its writer only, and hides nothing from readers."""
        return iter(())

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        check_time(timestamp_ms)
        found = {}
        with log_failures(), self.database.read() as tx:
            for partition in self.topic_store.partitions(tx, topic):
                span = (partition.start_place, partition.end_place)
                place = self.record_store.first_since(tx, *span, timestamp_ms)
                found[partition.number] = partition.end if place is None else place - partition.base
        return found

    def delete_before(self, topic: str, offsets: Offsets) -> None:
        with log_failures():
            with self.database.transaction() as tx:
                for number, offset in offsets.items():
                    found = self.topic_store.partition(tx, topic, number)
                    if not 0 <= offset <= found.end:
                        raise OffsetOutOfRange(topic, number, offset, found.start, found.end)
                    self.topic_store.move_start(tx, found.id, offset)
            crash.here(CrashPoint.START_MOVED)
            self.free_room()

    def _partitions(self, topic: str) -> list[Partition]:
        with log_failures(), self.database.glance() as tx:
            return self.topic_store.partitions(tx, topic)

    def _partition_at(self, topic: str, number: int, offset: int) -> Partition:
        with log_failures(), self.database.glance() as tx:
            found = self.topic_store.partition(tx, topic, number)
        if not found.start <= offset <= found.end:
            raise OffsetOutOfRange(topic, number, offset, found.start, found.end)
        return found

    def _records(self, topic: str, partition: Partition, place: int, stop: int) -> Iterator[Record]:
        """Portion by portion, each in a read of its own, so that a slow reader holds nothing up."""
        number, base = partition.number, partition.base
        while place < stop:
            with log_failures(), self.database.read() as tx:
                end = self.record_store.end_of_portion(tx, place, stop)
                rows = self.record_store.read(tx, place, end) if end is not None else []
            for at, timestamp_ms, key, value, headers in rows:
                yield Record(topic, number, at - base, timestamp_ms, key, value, decode_headers(headers))
            if end is None:
                break
            place = end
        self._check_same(topic, partition)

    def _check_same(self, topic: str, partition: Partition) -> None:
        """A read is complete only if its topic still exists at the end: rows of a deleted one go bit by bit."""
        try:
            is_same = any(each.id == partition.id for each in self._partitions(topic))
            found = None if is_same else self.topic(topic).id
        except UnknownTopic as error:
            raise TopicReplaced(topic, None, None) from error
        if not is_same:
            raise TopicReplaced(topic, None, found)

    # Positions

    def positions(self, group: str) -> dict[tuple[str, int], int]:
        with log_failures(), self.database.glance() as tx:
            return self.position_store.read(tx, check_user_group(group))

    def commit_positions(self, group: str, positions: Positions, tx: Transaction | None = None) -> None:
        check_user_group(group)
        check_positions(positions)
        if tx is not None:
            self.check_joined(tx)
        own: AbstractContextManager[Transaction] = self.database.transaction() if tx is None else nullcontext(tx)
        with log_failures(), own as open_tx:
            self.position_store.commit(open_tx, group, positions)

    def groups(self) -> list[str]:
        with log_failures(), self.database.glance() as tx:
            return self.position_store.groups(tx)

    def forget_group(self, group: str) -> None:
        with log_failures(), self.database.single() as tx:
            self.position_store.forget_group(tx, check_user_group(group))

    # Retention, which Kafka does by itself

    def expire(self, record: Callable[[Transaction, Event], None]) -> int:
        """Move the starts over records past their time, but never past what a group has still to read."""
        now_ms = self.database.now() // 1000
        with self.database.read() as tx:
            partitions = self.topic_store.expiring(tx)
        moved = 0
        for partition_id, topic, number, start, end, retention_ms, lowest in partitions:
            base = partition_id << OFFSET_BITS
            stop = end if lowest is None else min(end, lowest)
            with self.database.read() as tx:
                place = self.record_store.first_since(tx, base + start, base + stop, now_ms - retention_ms)
            new_start = stop if place is None else place - base
            if new_start > start:
                data = {"from": start, "to": new_start}
                with self.database.transaction() as tx:
                    if self.topic_store.expire_before(tx, partition_id, new_start):
                        record(tx, Event(EventKind.RECORDS_EXPIRED, f"{topic}/{number}", data=data))
                        moved += 1
        return moved

    def free_room(self) -> None:
        """Delete the rows that nobody can see any more, also those that a crash left behind."""
        with self.database.read() as tx:
            deleted = self.topic_store.of_deleted(tx)
            starts = self.topic_store.starts(tx)
        gone = {partition_id for partition_id, _ in deleted}
        for partition_id, start in starts:
            base = partition_id << OFFSET_BITS
            stop = (partition_id + 1) << OFFSET_BITS if partition_id in gone else base + start
            self._delete_places(base, stop)
        for partition_id, topic_id in deleted:
            with self.database.transaction() as tx:
                self.topic_store.remove_partition(tx, partition_id, topic_id)

    def _delete_places(self, place: int, stop: int) -> None:
        while True:
            with self.database.read() as tx:
                end = self.record_store.end_of_portion(tx, place, stop)
            if end is None:
                return
            with self.database.single() as tx:
                self.record_store.delete(tx, place, end)
            place = end

    def close(self) -> None:
        if self._owns_database:
            self.database.close()


class SqliteProducer:
    """One epoch of a producer. The write lock is taken only at the end of a transaction's block."""

    def __init__(self, log: SqliteLog, name: str, epoch: int) -> None:
        self.name = name
        self._log = log
        self._epoch = epoch
        self._is_closed = False

    @contextmanager
    def transaction(self, tx: Transaction | None = None) -> Iterator[SqliteLogTransaction]:
        """With `tx` it is written at the end of the block in the caller's transaction, and commits with that."""
        if self._is_closed:
            raise LogError(f"producer {self.name!r} was closed; open it again")
        if tx is not None:
            self._log.check_joined(tx)
        collected = SqliteLogTransaction(self._log.settings.max_record_bytes)
        yield collected
        if self._is_closed:
            raise LogError(f"producer {self.name!r} was closed during its transaction; nothing was written")
        if tx is not None:
            with tx.part():
                self._write(tx, collected)
            return
        with log_failures(), self._log.database.transaction() as own:
            self._write(own, collected)
            crash.here(CrashPoint.LOG_TRANSACTION_BEFORE_COMMIT)
        crash.here(CrashPoint.LOG_TRANSACTION_AFTER_COMMIT)

    def close(self) -> None:
        self._is_closed = True

    def _write(self, tx: Transaction, collected: SqliteLogTransaction) -> None:
        store = self._log.position_store
        store.check_producer(tx, self.name, self._epoch)
        group = sequence_group(self.name)
        sequences = {topic: count for (topic, _), count in store.read(tx, group).items()}
        for topic, records in collected.appends:
            first = sequences.get(topic, 0)
            self._log.write(tx, topic, records, first)
            unkeyed = sum(record.key is None and record.partition is None for record in records)
            if unkeyed:
                sequences[topic] = first + unkeyed
                store.commit(tx, group, {(topic, 0): first + unkeyed})
        crash.here(CrashPoint.LOG_TRANSACTION_FILLED)
        for name, positions in collected.positions:
            store.commit(tx, name, positions)


class SqliteLogTransaction:
    """Collects what is written when the block ends."""

    def __init__(self, max_record_bytes: int) -> None:
        self.appends: list[tuple[str, Sequence[NewRecord]]] = []
        self.positions: list[tuple[str, Positions]] = []
        self._portion = Portion()
        self._max_record_bytes = max_record_bytes

    def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        check_transaction(self._portion, records, self._max_record_bytes)
        self.appends.append((topic, list(records)))

    def commit_positions(self, group: str, positions: Positions) -> None:
        check_user_group(group)
        check_positions(positions)
        self.positions.append((group, dict(positions)))

    def flush(self) -> None:
        """Nothing to wait for: everything is written at the end."""


class LogJanitor(Service):
    """Deletes records past their retention. Every process that has opened the log runs one; two share the work."""

    name = "log janitor"

    def __init__(self, log: SqliteLog, events: Events, record: Callable[[Transaction, Event], None]) -> None:
        super().__init__(events)
        self._log = log
        self._record = record

    def run_once(self) -> RoundResult:
        expired = self._log.expire(self._record)
        self._log.free_room()
        return RoundResult(expired, self._log.settings.janitor_s)

    def size_bytes(self) -> int:
        """The size of the file that holds the topics."""
        return self._log.database.size_bytes()


def wakeup_name(topic: str) -> str:
    """The name of the bell that rings when records are appended to a topic."""
    return f"topic/{topic}"
