"""The `log_record` table: records by place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from operator import itemgetter

from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.log.headers import encode_headers
from towpath.log.partitioner import partition_of
from towpath.log.portions import MOST_BYTES, MOST_RECORDS
from towpath.log.record import NewRecord, Position, check_partitions
from towpath.log.topic_store import TopicStore

_COLUMNS = ("place", "timestamp_ms", "key", "value", "headers")


class RecordStore:
    """Appends at the end of partitions, reads ranges of places."""

    def __init__(self, database: Database, topics: TopicStore) -> None:
        self._queries = Queries("towpath.log", "records", database.dialect)
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

    def delete(self, tx: Transaction, start: int, stop: int) -> int:
        return tx.run(self._queries["delete_records"], {"from": start, "to": stop})
