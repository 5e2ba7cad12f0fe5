"""Counts values in records of topics on Spark, without a query of its own. Learned corrections are made of such counts.

Nothing is written. The caller says what is counted, as a function of the values of some records; Spark adds up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.plan.frames import with_set_headers
from towpath.flow.records.errors import PREFIX
from towpath.log.log import Log
from towpath.log.spark.source import read_batch

Name = tuple[str, ...]
Count = Callable[[Iterable[bytes | None]], Counter[Any]]

_PLACE = "topic string, partition int, offset bigint"
_PLACE_NAMES = ("topic", "topic-id", "partition", "offset")


class TooMany(Exception):
    """There are more different counts in a range than can be stored at once: take a smaller one."""


class ValueCounter:
    """Counts in ranges of topics. `errors` is the topic with the records that a flow has not taken."""

    def __init__(self, spark: SparkSession, log: Log, errors: str) -> None:
        self._spark = spark
        self._log = log
        self._errors = errors

    def taken(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        """The values of the records in these ranges, without those that have failed at least once."""
        records = self._read(ranges).select("topic", "partition", "offset", "value")
        ids = {each.topic: each.topic_id for each in ranges}
        errors = with_set_headers(read_batch(self._spark, self._log, [self._errors]))
        failed = errors.select("headers").mapInArrow(_Places(ids), _PLACE)
        return records.join(failed, ["topic", "partition", "offset"], "left_anti").select("value")

    def failed(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        """The values of error records in these ranges of the error topic, each record once."""
        records = with_set_headers(self._read(ranges))
        names = F.transform("headers", lambda header: header["key"])
        return records.where(~F.array_contains(names, f"{PREFIX}correlation")).select("value")

    def count(self, values: DataFrame, count: Count, parts: int, most: int) -> Counter[Name]:
        """What `count` finds in all of them, added up; `TooMany` when there are more than `most` different ones.

        The names that it counts are tuples of so many texts.
        """
        names = [f"part_{at}" for at in range(parts)]
        schema = ", ".join(f"{name} string" for name in names) + ", found bigint"
        counted = values.mapInArrow(_Counted(count, names), schema).groupBy(*names).agg(F.sum("found").alias("found"))
        rows = counted.limit(most + 1).collect()
        if len(rows) > most:
            raise TooMany
        return Counter({tuple(row)[:-1]: int(row["found"]) for row in rows})

    def some(self, values: DataFrame, most: int) -> list[bytes]:
        """A sample of the values."""
        return [bytes(row["value"]) for row in values.where("value is not null").limit(most).collect()]

    def _read(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        topics = sorted({each.topic for each in ranges})
        # Every other partition of a topic is read from its end to its end.
        ends = {(name, number): end for name in topics for number, end in self._log.ends(name).items()}
        starting, ending = dict(ends), dict(ends)
        for each in ranges:
            starting[each.topic, each.partition] = each.start
            ending[each.topic, each.partition] = each.stop
        return read_batch(self._spark, self._log, topics, starting, ending)


class _Counted:
    """In a worker: one row for each count of a task."""

    def __init__(self, count: Count, names: Sequence[str]) -> None:
        self._count = count
        self._names = names

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = self._count(value for batch in batches for value in batch.column("value").to_pylist())
        columns = [pa.array([name[at] for name in found], pa.string()) for at in range(len(self._names))]
        yield pa.RecordBatch.from_arrays([*columns, pa.array(found.values(), pa.int64())], [*self._names, "found"])


class _Places:
    """In a worker: where the records of error records were read for the first time."""

    def __init__(self, ids: dict[str, str]) -> None:
        self._ids = ids

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            places = list(filter(None, map(self._place, batch.column("headers").to_pylist())))
            topics, partitions, offsets = zip(*places, strict=True) if places else ((), (), ())
            yield pa.RecordBatch.from_arrays(
                [pa.array(topics, pa.string()), pa.array(partitions, pa.int32()), pa.array(offsets, pa.int64())],
                ["topic", "partition", "offset"],
            )

    def _place(self, headers: Sequence[dict[str, Any]] | None) -> tuple[str, int, int] | None:
        said = {header["key"]: header["value"] for header in headers or ()}
        try:
            topic, id, partition, offset = (said[PREFIX + name].decode() for name in _PLACE_NAMES)
            return (topic, int(partition), int(offset)) if self._ids.get(topic) == id else None
        except (KeyError, ValueError, AttributeError):
            return None
