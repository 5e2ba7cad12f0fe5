"""Topics as DataFrames: the same columns and the same records from either log.

The columns are `topic partition offset timestamp key value headers`, as `columns.SCHEMA` has them. Everything
that can be wrong with a call is found here, on the driver, before Spark starts something: what fails later comes
wrapped in an exception of Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from towpath.db.sqlite.database import SqliteDatabase
from towpath.errors import BadSettings, BadValue, OffsetOutOfRange
from towpath.log.log import Log, Positions
from towpath.log.open import KAFKA_PREFIX
from towpath.log.spark import kafka
from towpath.log.spark.columns import COLUMNS
from towpath.log.spark.sqlite import FORMAT, LogFile, SourceOffset, SourceOptions, Spots, SqliteLogSource
from towpath.log.sqlite.log import SqliteLog
from towpath.log.topic import Topic
from towpath.settings import LogSettings
from towpath.spark.cluster import is_on_this_host
from towpath.spark.session import check_connector


def read_batch(
    spark: SparkSession,
    log: Log,
    topics: Sequence[str],
    starting: Positions | None = None,
    ending: Positions | None = None,
) -> DataFrame:
    """The records of a range of each partition: from `starting`, or what is kept, to before `ending`, or now's end.

    The range is fixed by this call: the DataFrame is the same however often it is used, except that records which are
    deleted meanwhile are missing from it.
    """
    wanted = _ReadRequest.of(log, topics, starting, ending)
    first = {**wanted.kept, **wanted.starting}
    stop = {**wanted.ends, **wanted.ending}
    source = _source(spark, log)
    return _load(spark.read, *source.batch(wanted, first, stop))


def read_stream(
    spark: SparkSession,
    log: Log,
    topics: Sequence[str],
    starting: Positions | None = None,
    max_records_per_trigger: int | None = None,
) -> DataFrame:
    """The records of topics as they come, for a query that starts at `starting`, or with what is kept.

    A checkpoint counts for more than `starting`. Give the same `starting` on every start all the same: until the first
    batch is done the checkpoint does not know where the query began.
    """
    if max_records_per_trigger is not None and max_records_per_trigger < 1:
        raise BadValue(f"max_records_per_trigger must be at least 1, not {max_records_per_trigger!r}")
    wanted = _ReadRequest.of(log, topics, starting, None)
    source = _source(spark, log)
    return _load(spark.readStream, *source.stream(wanted, max_records_per_trigger))


def _load(reader: Any, format_: str, options: dict[str, str]) -> DataFrame:
    frame: DataFrame = reader.format(format_).options(**options).load()
    return frame.select(*COLUMNS)


@dataclass(frozen=True, slots=True)
class _ReadRequest:
    """The topics and offsets of a call, checked against the log."""

    topics: list[Topic]
    kept: Spots
    ends: Spots
    starting: Spots
    ending: Spots

    @property
    def ids(self) -> dict[str, str]:
        return {topic.name: topic.id for topic in self.topics}

    @property
    def names(self) -> list[str]:
        return sorted(self.ids)

    @classmethod
    def of(cls, log: Log, names: Sequence[str], starting: Positions | None, ending: Positions | None) -> _ReadRequest:
        if not names or isinstance(names, str):
            raise BadValue(f"topics is a list of at least one name, not {names!r}")
        topics = [log.topic(name) for name in names]
        kept, ends = _spots(topics, log.starts), _spots(topics, log.ends)
        wanted = cls(topics, kept, ends, dict(starting or {}), dict(ending or {}))
        for spots in (wanted.starting, wanted.ending):
            wanted._check(spots)
        return wanted

    def _check(self, spots: Spots) -> None:
        """Check that offsets exist. Those below the start are no error: their records were deleted meanwhile."""
        known = {topic.name: topic for topic in self.topics}
        for (name, number), offset in spots.items():
            if name not in known:
                raise BadValue(f"an offset is given for topic {name!r}, which is not one of those that are read")
            known[name].check_partition(number)
            end = self.ends.get((name, number), 0)
            if not 0 <= offset <= end:
                raise OffsetOutOfRange(name, number, offset, self.kept.get((name, number), 0), end)


def _spots(topics: list[Topic], offsets: Callable[[str], dict[int, int]]) -> Spots:
    return {(topic.name, number): offset for topic in topics for number, offset in offsets(topic.name).items()}


def _source(spark: SparkSession, log: Log) -> _SqliteSource | _KafkaSource:
    if isinstance(log, SqliteLog) and isinstance(log.database, SqliteDatabase):
        master = spark.sparkContext.master or ""
        if not is_on_this_host(master):
            raise BadSettings(
                f"log.url: executors of {master} may be on other hosts and cannot read {log.url}; "
                "use Kafka (kafka://host:port), or a local or loopback spark.master"
            )
        LogFile(str(log.database.path), log.settings.timeout_s).close()  # raises where a worker would
        spark.dataSource.register(SqliteLogSource)
        return _SqliteSource(str(log.database.path), log.settings.timeout_s)
    from towpath.log.kafka.log import KafkaLog  # the client library is loaded only where it is used

    if not isinstance(log, KafkaLog):
        raise BadValue(f"Spark can read the log on SQLite or on Kafka, not {type(log).__name__}")
    check_connector(spark)
    return _KafkaSource(log.url.removeprefix(KAFKA_PREFIX), log.settings)


@dataclass(frozen=True, slots=True)
class _SqliteSource:
    path: str
    lock_timeout_s: float

    def batch(self, wanted: _ReadRequest, first: Spots, stop: Spots) -> tuple[str, dict[str, str]]:
        return self._options(SourceOffset(wanted.ids, first), SourceOffset(wanted.ids, stop), None)

    def stream(self, wanted: _ReadRequest, most: int | None) -> tuple[str, dict[str, str]]:
        return self._options(SourceOffset(wanted.ids, wanted.starting), SourceOffset(wanted.ids, {}), most)

    def _options(self, starting: SourceOffset, ending: SourceOffset, most: int | None) -> tuple[str, dict[str, str]]:
        return FORMAT, SourceOptions(self.path, self.lock_timeout_s, starting, ending, most).to_options()


@dataclass(frozen=True, slots=True)
class _KafkaSource:
    servers: str
    settings: LogSettings

    def batch(self, wanted: _ReadRequest, first: Spots, stop: Spots) -> tuple[str, dict[str, str]]:
        ranges = {
            "startingOffsets": kafka.offsets_option(first),
            "endingOffsets": kafka.offsets_option(stop),
        }
        return kafka.FORMAT, {**self._common(wanted), **ranges}

    def stream(self, wanted: _ReadRequest, most: int | None) -> tuple[str, dict[str, str]]:
        options = {**self._common(wanted), "startingOffsets": "earliest"}
        if wanted.starting:
            # Spark wants all partitions or none.
            every = {spot: wanted.starting.get(spot, kafka.EARLIEST) for spot in wanted.ends}
            options["startingOffsets"] = kafka.offsets_option(every)
        if most is not None:
            options["maxOffsetsPerTrigger"] = str(most)
        return kafka.FORMAT, options

    def _common(self, wanted: _ReadRequest) -> dict[str, str]:
        return kafka.connector_options(self.servers, self.settings, wanted.names)
