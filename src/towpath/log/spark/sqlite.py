"""The SQLite log as a data source of Spark, for batch and streaming.

Spark makes a reader in several processes: in one on the driver, which plans and lives as long as its query, and for
each task in a worker. So a reader carries options only, and opens the file when it is asked for something; each
process opens the file for itself and only reads.

A checkpoint does not hold where a query began until its first batch is done: after a crash in that batch Spark asks
for the initial offset again. That is why chosen starting offsets are options of the source, the same on every start.

Spark keeps offsets as text in the checkpoint and takes two texts that differ for news, so their order is always the
same.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from towpath.db import Queries, Transaction
from towpath.db.sqlite.database import SqliteDatabase
from towpath.errors import LogUnavailable, TopicDeleted, TopicReplaced, UnknownTopic
from towpath.log.portions import MOST_BYTES, MOST_RECORDS
from towpath.log.spark.columns import SCHEMA, record_batch
from towpath.log.sqlite.store import Partition, RecordStore, TopicStore, log_failures

FORMAT = "towpath-sqlite-log"
Spots = dict[tuple[str, int], int]  # offset by topic and partition


class SqliteLogSource(DataSource):
    """The data source that Spark registers."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(SourceOptions.from_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(SourceOptions.from_options(self.options))


class BatchReader(DataSourceReader):
    """Reads ranges that the driver has fixed."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[ReadTask]:
        return _tasks(self._options.starting, self._options.ending)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the ends of the topics, partitions that are added later included."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._file: LogFile | None = None
        self._last: Spots | None = None  # with `availableNow`: the ends that were there when it began
        self._seen: SourceOffset | None = None  # for those who look at the query's progress

    def initialOffset(self) -> dict[str, Any]:
        ids = self._options.starting.ids
        kept, _ = self._look(ids)
        return SourceOffset(ids, {**kept, **self._options.starting.spots}).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_records
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = SourceOffset.from_json(start)
        # The ids in a checkpoint count for more than today's: it may be of a topic that is gone.
        ids = {name: begun.ids.get(name, today) for name, today in self._options.starting.ids.items()}
        kept, ends = self._look(ids)
        self._seen = SourceOffset(ids, ends)
        if self._last is not None:
            ends = {spot: min(end, self._last[spot]) for spot, end in ends.items() if spot in self._last}
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        reached = advance(begun.spots, kept, ends, most)
        return SourceOffset(ids, {spot: offset for spot, offset in reached.items() if spot[0] in ids}).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._seen is None else self._seen.to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        _, self._last = self._look(self._options.starting.ids)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[ReadTask]:
        return _tasks(SourceOffset.from_json(start), SourceOffset.from_json(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)

    def stop(self) -> None:
        if self._file is not None:
            self._file.close()

    def _look(self, ids: Mapping[str, str]) -> tuple[Spots, Spots]:
        """The first kept offset and the end of every partition."""
        if self._file is None:
            self._file = self._options.open()
        found = [(name, each) for name, all_of in self._file.partitions(ids).items() for each in all_of]
        return {(name, p.number): p.start for name, p in found}, {(name, p.number): p.end for name, p in found}


class ReadTask(InputPartition):
    """The range that one task reads."""

    def __init__(self, wanted: FileRange) -> None:
        self.wanted = wanted


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a reader. `ending` is for batches only, `max_records` for streams only."""

    path: str
    lock_timeout_s: float
    starting: SourceOffset  # ids of all topics, offsets where they were chosen
    ending: SourceOffset
    max_records: int | None = None

    def to_options(self) -> dict[str, str]:
        """Spark's options are text."""
        return {
            "path": self.path,
            "lockTimeout": str(self.lock_timeout_s),
            "starting": json.dumps(self.starting.to_json()),
            "ending": json.dumps(self.ending.to_json()),
            "maxRecords": str(self.max_records or 0),
        }

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        return cls(
            options["path"],
            float(options["lockTimeout"]),
            SourceOffset.from_json(json.loads(options["starting"])),
            SourceOffset.from_json(json.loads(options["ending"])),
            int(options["maxRecords"]) or None,
        )

    def open(self) -> LogFile:
        return LogFile(self.path, self.lock_timeout_s)


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The offset to go on from in each partition, and the ids of the topics that these offsets belong to."""

    ids: Mapping[str, str]
    spots: Spots

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        spots = {
            (name, int(number)): int(offset)
            for name, topic in value.items()
            for number, offset in topic["offsets"].items()
        }
        return cls({name: topic["id"] for name, topic in value.items()}, spots)

    def to_json(self) -> dict[str, Any]:
        """`{"clicks": {"id": "…", "offsets": {"0": 17, "1": 4}}}`"""
        value: dict[str, Any] = {name: {"id": self.ids[name], "offsets": {}} for name in sorted(self.ids)}
        for name, number in sorted(self.spots):
            value[name]["offsets"][str(number)] = self.spots[name, number]
        return value


def advance(start: Spots, kept: Spots, ends: Spots, limit: int | None) -> Spots:
    """Where a batch from `start` ends that reads no more than `limit` offsets; it never goes backwards.

    What is below the `kept` starts was deleted and is passed over. Partitions with little to read are read whole; the
    others share the rest evenly, the longest first when there is less than one for each.
    """
    first = {spot: max(start.get(spot, 0), min(kept[spot], end)) for spot, end in ends.items()}
    backlog = {spot: max(0, end - first[spot]) for spot, end in ends.items()}
    room = sum(backlog.values()) if limit is None else limit
    waiting = len(backlog)
    reached = {}
    for spot in sorted(backlog, key=lambda each: (backlog[each], each)):
        taken = min(backlog[spot], room // waiting)
        reached[spot] = first[spot] + taken
        room -= taken
        waiting -= 1
    return {**start, **reached}


class LogFile:
    """One open log file. The caller closes it."""

    def __init__(self, path: str, lock_timeout_s: float) -> None:
        if not Path(path).is_file():  # opening would make an empty one
            raise LogUnavailable(f"sqlite:///{path}: the file is not there; Spark reads it on the host where it runs")
        self._database = SqliteDatabase(Path(path), lock_timeout_s=lock_timeout_s)
        self._topics = TopicStore(self._database)
        self._records = RecordStore(self._database, self._topics)
        self._queries = Queries("towpath.log.spark", "ranges", self._database.dialect)

    def close(self) -> None:
        self._database.close()

    def partitions(self, topics: Mapping[str, str]) -> dict[str, list[Partition]]:
        """The partitions of topics, by name and id, as they are now; `TopicReplaced` when an id is another."""
        with log_failures(), self._database.read() as tx:
            return {name: self._partitions(tx, name, topic_id) for name, topic_id in topics.items()}

    def batches(self, wanted: FileRange) -> Iterator[pa.RecordBatch]:
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

    def _portion(self, wanted: FileRange, base: int, place: int, stop: int) -> tuple[int, pa.RecordBatch | None]:
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

    def _partition(self, wanted: FileRange) -> Partition:
        return self.partitions({wanted.topic: wanted.topic_id})[wanted.topic][wanted.partition]

    def _partitions(self, tx: Transaction, name: str, topic_id: str) -> list[Partition]:
        try:
            found = self._topics.read(tx, name)
        except UnknownTopic as error:
            raise TopicDeleted(name, topic_id) from error
        if found.id != topic_id:
            raise TopicReplaced(name, topic_id, found.id)
        return self._topics.partitions(tx, name)


class FileRange(NamedTuple):
    """The offsets from `start` to before `stop` of one partition of the topic with that id."""

    topic: str
    topic_id: str
    partition: int
    start: int
    stop: int


def _tasks(start: SourceOffset, stop: SourceOffset) -> list[ReadTask]:
    """One for each partition with something to read. One that was added since the start is read from its beginning."""
    tasks = []
    for (name, number), end in stop.spots.items():
        first = start.spots.get((name, number), 0)
        if first < end:
            tasks.append(ReadTask(FileRange(name, stop.ids[name], number, first, end)))
    return tasks


def _read(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, ReadTask):  # Spark's own placeholder when there is nothing to read
        return
    with closing(options.open()) as file:
        yield from file.batches(partition.wanted)


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
