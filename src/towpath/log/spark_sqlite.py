"""The SQLite log as a data source of Spark, for batch and streaming.

Spark makes a reader in several processes: in one on the driver, which plans and lives as long as its query, and for
each task in a worker. So a reader carries options only, and opens the file when it is asked for something.

A checkpoint does not hold where a query began until its first batch is done: after a crash in that batch Spark asks
for the initial offset again. That is why chosen starting offsets are options of the source, the same on every start.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from towpath.log.spark_columns import SCHEMA
from towpath.log.spark_file import LogFile, Range
from towpath.log.spark_offsets import SourceOffset, Spots, advance

FORMAT = "towpath-sqlite-log"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a reader is told. `ending` is for batches only, `max_records` for streams only."""

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


class Task(InputPartition):
    """What one task reads."""

    def __init__(self, wanted: Range) -> None:
        self.wanted = wanted


class SqliteLogSource(DataSource):
    """What Spark registers."""

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

    def partitions(self) -> list[Task]:
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

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Task]:
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


def _tasks(start: SourceOffset, stop: SourceOffset) -> list[Task]:
    """One for each partition with something to read. One that was added since the start is read from its beginning."""
    tasks = []
    for (name, number), end in stop.spots.items():
        first = start.spots.get((name, number), 0)
        if first < end:
            tasks.append(Task(Range(name, stop.ids[name], number, first, end)))
    return tasks


def _read(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, Task):  # Spark's own placeholder when there is nothing to read
        return
    file = options.open()
    try:
        yield from file.batches(partition.wanted)
    finally:
        file.close()
