"""The SQLite log as Spark's processes see it: they open the file themselves, each for its own, and only read."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from towpath.db import Queries, Transaction
from towpath.db.sqlite import SqliteDatabase
from towpath.errors import LogUnavailable, TopicDeleted, TopicReplaced, UnknownTopic
from towpath.log.portions import MOST_BYTES, MOST_RECORDS
from towpath.log.record_store import RecordStore
from towpath.log.spark_columns import record_batch
from towpath.log.sqlite_failures import log_failures
from towpath.log.topic_store import Partition, TopicStore


class Range(NamedTuple):
    """The offsets from `start` to before `stop` of one partition of the topic with that id."""

    topic: str
    topic_id: str
    partition: int
    start: int
    stop: int


class LogFile:
    """One open file. Whoever opens it closes it."""

    def __init__(self, path: str, lock_timeout_s: float) -> None:
        if not Path(path).is_file():  # opening would make an empty one
            raise LogUnavailable(f"sqlite:///{path}: the file is not there; Spark reads it on the host where it runs")
        self._database = SqliteDatabase(Path(path), lock_timeout_s=lock_timeout_s)
        self._topics = TopicStore(self._database)
        self._records = RecordStore(self._database, self._topics)
        self._queries = Queries("towpath.log", "spark_ranges", self._database.dialect)

    def close(self) -> None:
        self._database.close()

    def partitions(self, topics: Mapping[str, str]) -> dict[str, list[Partition]]:
        """The partitions of topics, by name and id, as they are now; `TopicReplaced` when an id is another."""
        with log_failures(), self._database.read() as tx:
            return {name: self._partitions(tx, name, topic_id) for name, topic_id in topics.items()}

    def batches(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        """The records of a range that are still kept, a portion at a time.

        The topic may be deleted meanwhile, and its records are then removed bit by bit: what was read counts only if
        the topic is still the same at the end.
        """
        found = self._partition(wanted)
        place, stop = found.base + max(wanted.start, found.start), found.base + wanted.stop
        while place < stop:
            with log_failures(), _without_collector():
                place, batch = self._portion(wanted, found.base, place, stop)
            if batch is not None:
                yield batch
        self._partition(wanted)

    def _portion(self, wanted: Range, base: int, place: int, stop: int) -> tuple[int, pa.RecordBatch | None]:
        """The next place to read from, and the records before it."""
        with self._database.read() as tx:
            end = self._end_of_portion(tx, place, min(place + MOST_RECORDS, stop))
            if end is None:
                return self._next_place(tx, place, stop), None
            rows = self._records.read(tx, place, end)
        return end, record_batch(wanted.topic, wanted.partition, base, rows)

    def _end_of_portion(self, tx: Transaction, place: int, end: int) -> int | None:
        """As the store's own, but the exact cut, which takes as long as reading, is made only where it is needed."""
        [(count, size)] = tx.rows(self._queries["measure_range"], {"from": place, "to": end})
        if count == 0:
            return None
        return end if size <= MOST_BYTES else self._records.end_of_portion(tx, place, end)

    def _next_place(self, tx: Transaction, place: int, stop: int) -> int:
        [(first,)] = tx.rows(self._queries["first_place"], {"from": place, "to": stop})
        return stop if first is None else int(first)

    def _partition(self, wanted: Range) -> Partition:
        return self.partitions({wanted.topic: wanted.topic_id})[wanted.topic][wanted.partition]

    def _partitions(self, tx: Transaction, name: str, topic_id: str) -> list[Partition]:
        try:
            found = self._topics.read(tx, name)
        except UnknownTopic as error:
            raise TopicDeleted(name, topic_id) from error
        if found.id != topic_id:
            raise TopicReplaced(name, topic_id, found.id)
        return self._topics.partitions(tx, name)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Rows hold no cycles, and looking for some among ten thousand fresh tuples takes a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
