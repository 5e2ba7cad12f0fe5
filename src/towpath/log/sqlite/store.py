"""The tables of the SQLite log: topics and partitions, records by place, positions of groups, producers' epochs.

Every store works inside a transaction that the caller opens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from operator import itemgetter
from typing import NamedTuple
from uuid import uuid4

from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.errors import (
    BadValue,
    CommitUnknown,
    DatabaseUnavailable,
    LogUnavailable,
    ProducerFenced,
    TopicExists,
    TransactionUnknown,
    UnknownPartition,
    UnknownTopic,
)
from towpath.log.log import Positions
from towpath.log.portions import MOST_BYTES, MOST_RECORDS
from towpath.log.record import NewRecord, Position, check_partitions, encode_headers, partition_of
from towpath.log.topic import OFFSET_BITS, Topic

_COLUMNS = ("place", "timestamp_ms", "key", "value", "headers")


class TopicStore:
    """`log_topic` and `log_partition`. Nobody sees a deleted topic, also while its records are being removed."""

    def __init__(self, database: Database) -> None:
        self._queries = Queries("towpath.log.sqlite", "topics", database.dialect)

    def create(self, tx: Transaction, name: str, partitions: int, retention_s: float | None) -> Topic:
        topic = Topic(name, str(uuid4()), partitions, retention_s)
        retention_ms = None if retention_s is None else max(1, round(retention_s * 1000))
        values = {"id": topic.id, "name": name, "retention_ms": retention_ms}
        if tx.run(self._queries["insert_topic"], values) == 0:
            raise TopicExists(name)
        self._insert_partitions(tx, topic.id, range(partitions))
        return topic

    def read(self, tx: Transaction, name: str) -> Topic:
        found = tx.rows(self._queries["read_topic"], {"name": name})
        if not found:
            raise UnknownTopic(name)
        return _topic(found[0])

    def all(self, tx: Transaction) -> list[Topic]:
        return [_topic(row) for row in tx.rows(self._queries["list_topics"], {})]

    def partitions(self, tx: Transaction, name: str) -> list[Partition]:
        found = tx.rows(self._queries["partitions_of_topic"], {"name": name})
        if not found:
            raise UnknownTopic(name)
        return [Partition(*row) for row in found]

    def partition(self, tx: Transaction, name: str, number: int) -> Partition:
        partitions = self.partitions(tx, name)
        if not 0 <= number < len(partitions):
            raise UnknownPartition(name, number, len(partitions))
        return partitions[number]

    def add_partitions(self, tx: Transaction, name: str, count: int) -> Topic:
        topic = self.read(tx, name)
        if count < topic.partitions:
            raise BadValue(f"topic {name!r} has {topic.partitions} partitions; they cannot be made fewer ({count})")
        self._insert_partitions(tx, topic.id, range(topic.partitions, count))
        return self.read(tx, name)

    def move_end(self, tx: Transaction, partition_id: int, end: int) -> None:
        tx.run(self._queries["move_end"], {"id": partition_id, "next": end})

    def move_start(self, tx: Transaction, partition_id: int, start: int) -> None:
        tx.run(self._queries["move_start"], {"id": partition_id, "start": start})

    def expire_before(self, tx: Transaction, partition_id: int, start: int) -> bool:
        """Whether the start was moved: not when it lies further already, or a group has still to read what would go."""
        return tx.run(self._queries["expire_before"], {"id": partition_id, "start": start}) > 0

    def mark_deleted(self, tx: Transaction, name: str) -> str:
        """Hide the topic from everyone; returns its id."""
        found = tx.rows(self._queries["mark_deleted"], {"name": name})
        if not found:
            raise UnknownTopic(name)
        return str(found[0][0])

    def of_deleted(self, tx: Transaction) -> list[Row]:
        """Id and topic id of each partition that outlived its topic."""
        return tx.rows(self._queries["partitions_of_deleted"], {})

    def remove_partition(self, tx: Transaction, partition_id: int, topic_id: str) -> None:
        """Remove a partition of a deleted topic, which has no records left. The last one takes the topic with it."""
        tx.run(self._queries["delete_partition"], {"id": partition_id})
        tx.run(self._queries["delete_topic"], {"id": topic_id})

    def expiring(self, tx: Transaction) -> list[Row]:
        return tx.rows(self._queries["expiring_partitions"], {})

    def starts(self, tx: Transaction) -> list[Row]:
        """Id and start of every partition."""
        return tx.rows(self._queries["all_partitions"], {})

    def _insert_partitions(self, tx: Transaction, topic_id: str, numbers: range) -> None:
        for number in numbers:
            tx.run(self._queries["insert_partition"], {"topic_id": topic_id, "number": number})


class RecordStore:
    """`log_record`: appends at the end of partitions, reads ranges of places."""

    def __init__(self, database: Database, topics: TopicStore) -> None:
        self._queries = Queries("towpath.log.sqlite", "records", database.dialect)
        self._topics = topics

    def append(
        self, tx: Transaction, topic: str, records: Sequence[NewRecord], now_ms: int, sequence: int
    ) -> list[Position]:
        """Write the records; those without key and partition go round, beginning with number `sequence`."""
        partitions = self._topics.partitions(tx, topic)
        total = len(partitions)
        check_partitions(topic, records, total)
        ends = [partition.end for partition in partitions]
        bases = [partition.base for partition in partitions]
        rows, positions, turn = [], [], count(sequence)
        for record in records:
            key = record.key
            number = record.partition
            if number is None:
                number = next(turn) % total if key is None else partition_of(key, total)
            offset = ends[number]
            ends[number] = offset + 1
            timestamp_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
            headers = encode_headers(record.headers) if record.headers else None
            rows.append((bases[number] + offset, timestamp_ms, key, record.value, headers))
            positions.append((number, offset))
        rows.sort(key=itemgetter(0))  # partition after partition: neighbours go into the same page
        tx.insert_many("log_record", _COLUMNS, rows)
        for partition, end in zip(partitions, ends, strict=True):
            if end != partition.end:
                self._topics.move_end(tx, partition.id, end)
        return positions

    def read(self, tx: Transaction, start: int, stop: int) -> list[Row]:
        """The rows of a range of places."""
        return tx.rows(self._queries["read_records"], {"from": start, "to": stop})

    def end_of_portion(self, tx: Transaction, start: int, stop: int) -> int | None:
        """Where to end a read or delete from `start` that should not be too large; None when nothing is there."""
        values = {"from": start, "to": stop, "limit": MOST_RECORDS, "bytes": MOST_BYTES}
        end: int | None = tx.rows(self._queries["end_of_portion"], values)[0][0]
        return end

    def first_since(self, tx: Transaction, start: int, stop: int, timestamp_ms: int) -> int | None:
        """The first place of the range whose record is not older."""
        values = {"from": start, "to": stop, "timestamp_ms": timestamp_ms}
        found = tx.rows(self._queries["first_since"], values)
        return found[0][0] if found else None

    def delete(self, tx: Transaction, start: int, stop: int) -> None:
        tx.run(self._queries["delete_records"], {"from": start, "to": stop})


class PositionStore:
    """`log_position` and `log_producer`: how far groups have come, and who may write under a producer's name."""

    def __init__(self, database: Database, topics: TopicStore) -> None:
        self._queries = Queries("towpath.log.sqlite", "positions", database.dialect)
        self._topics = topics

    def read(self, tx: Transaction, group: str) -> dict[tuple[str, int], int]:
        rows = tx.rows(self._queries["read_positions"], {"group": group})
        return {(topic, number): position for topic, number, position in rows}

    def commit(self, tx: Transaction, group: str, positions: Positions) -> None:
        for (topic, number), position in positions.items():
            values = {"group": group, "topic": topic, "partition": number, "next": position}
            if tx.run(self._queries["set_position"], values) == 0:
                self._topics.partition(tx, topic, number)  # raises: says which of the two is not there

    def groups(self, tx: Transaction) -> list[str]:
        return [name for (name,) in tx.rows(self._queries["list_groups"], {})]

    def forget_group(self, tx: Transaction, group: str) -> None:
        tx.run(self._queries["forget_group"], {"group": group})

    def forget_topic(self, tx: Transaction, topic_id: str) -> None:
        tx.run(self._queries["forget_topic"], {"topic_id": topic_id})

    def open_producer(self, tx: Transaction, name: str) -> int:
        """Fence the older ones of this name; returns the epoch of the new one."""
        return int(tx.rows(self._queries["open_producer"], {"name": name})[0][0])

    def check_producer(self, tx: Transaction, name: str, epoch: int) -> None:
        if not tx.rows(self._queries["is_current_producer"], {"name": name, "epoch": epoch}):
            raise ProducerFenced(name)


class Partition(NamedTuple):
    """A partition as it is now. Its records have the places from `start_place` to before `end_place`."""

    id: int
    number: int
    start: int
    end: int

    @property
    def base(self) -> int:
        return self.id << OFFSET_BITS

    @property
    def start_place(self) -> int:
        return self.base + self.start

    @property
    def end_place(self) -> int:
        return self.base + self.end


@contextmanager
def log_failures() -> Iterator[None]:
    """Raise the errors of a log for failures of the database that it is in."""
    try:
        yield
    except DatabaseUnavailable as error:
        raise LogUnavailable(str(error)) from error
    except CommitUnknown as error:
        raise TransactionUnknown(str(error)) from error


def _topic(row: Row) -> Topic:
    name, topic_id, partitions, retention_ms = row
    return Topic(name, topic_id, partitions, None if retention_ms is None else retention_ms / 1000)
