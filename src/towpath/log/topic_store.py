"""The `log_topic` and `log_partition` tables."""

from __future__ import annotations

from typing import NamedTuple
from uuid import uuid4

from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.errors import BadValue, TopicExists, UnknownPartition, UnknownTopic
from towpath.log.topic import Topic

OFFSET_BITS = 40


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


class TopicStore:
    """Topics by name; a deleted one is seen by nobody, also while its records are still being removed."""

    def __init__(self, database: Database) -> None:
        self._queries = Queries("towpath.log", "topics", database.dialect)

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

    def move_start(self, tx: Transaction, partition_id: int, start: int) -> bool:
        return tx.run(self._queries["move_start"], {"id": partition_id, "start": start}) > 0

    def expire_before(self, tx: Transaction, partition_id: int, start: int) -> bool:
        """Whether the start was moved: not when somebody was faster, or a group has still to read what would go."""
        return tx.run(self._queries["expire_before"], {"id": partition_id, "start": start}) > 0

    def mark_deleted(self, tx: Transaction, name: str) -> str:
        """From now on nobody sees the topic; returns its id."""
        found = tx.rows(self._queries["mark_deleted"], {"name": name})
        if not found:
            raise UnknownTopic(name)
        return str(found[0][0])

    def of_deleted(self, tx: Transaction) -> list[Row]:
        """Id and topic id of each partition that outlived its topic."""
        return tx.rows(self._queries["partitions_of_deleted"], {})

    def remove_partition(self, tx: Transaction, partition_id: int, topic_id: str) -> None:
        """Of a deleted topic: it has no records any more. With the last one the topic's row goes too."""
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


def _topic(row: Row) -> Topic:
    name, topic_id, partitions, retention_ms = row
    return Topic(name, topic_id, partitions, None if retention_ms is None else retention_ms / 1000)
