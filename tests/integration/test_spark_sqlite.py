"""What only the SQLite log does when Spark reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from tests.support.logs import new
from tests.support.spark import Following, records

from towpath.db import open_database
from towpath.errors import BadSettings, LogUnavailable, TopicReplaced
from towpath.log import NewRecord
from towpath.log.spark.columns import ARROW_SCHEMA, SCHEMA
from towpath.log.spark.source import read_batch, read_stream
from towpath.log.spark.sqlite import FileRange, LogFile, SourceOffset, SourceOptions, StreamReader
from towpath.log.sqlite.log import SqliteLog
from towpath.settings import DatabaseSettings, LogSettings

Follow = Callable[..., Following]
MIB = 1 << 20

pytestmark = pytest.mark.timeout(300)  # the first test waits for Spark to start


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "topics.db"


@pytest.fixture
def log(path: Path) -> Iterator[SqliteLog]:
    database = open_database(DatabaseSettings(url=f"sqlite:///{path}", synchronous="normal"))
    yield SqliteLog(database, LogSettings())
    database.close()


@pytest.fixture
def file(log: SqliteLog, path: Path) -> Iterator[LogFile]:
    opened = LogFile(str(path), 10.0)
    yield opened
    opened.close()


def test_columns_have_the_types_that_spark_asks_for() -> None:
    columns = StructType.fromDDL(SCHEMA)
    assert isinstance(columns, StructType)
    assert to_arrow_schema(columns, timezone="UTC").equals(ARROW_SCHEMA)


def test_large_records_come_a_few_at_a_time(log: SqliteLog, file: LogFile) -> None:
    """Ten thousand of them at once would need more memory than a worker has."""
    topic = log.create_topic("t", 1)
    log.append("t", new(*(bytes(3 * MIB) for _ in range(5)), b"small"))
    batches = list(file.batches(FileRange("t", topic.id, 0, 0, 6)))
    assert [batch.column("offset").to_pylist() for batch in batches] == [[0, 1], [2, 3], [4, 5]]


def test_holes_are_passed_over(log: SqliteLog, file: LogFile) -> None:
    topic = log.create_topic("t", 2)
    log.append("t", [NewRecord(b"", partition=1) for _ in range(3)])
    database: Any = log.database
    with database.transaction() as tx:
        tx._connection.execute("update log_record set place = place + 1000000000 where place & 3 = 2")
    batches = list(file.batches(FileRange("t", topic.id, 1, 0, 2_000_000_000)))
    assert [batch.column("offset").to_pylist() for batch in batches] == [[0, 1], [1_000_000_002]]


def test_deleted_records_are_not_read_though_their_room_is_not_free_yet(log: SqliteLog, file: LogFile) -> None:
    topic = log.create_topic("t", 1)
    log.append("t", new(b"0", b"1", b"2"))
    with log.database.transaction() as tx:
        log.topic_store.move_start(tx, log.topic_store.partition(tx, "t", 0).id, 2)
    [batch] = file.batches(FileRange("t", topic.id, 0, 0, 3))
    assert batch.column("offset").to_pylist() == [2]


def test_topic_that_is_deleted_while_it_is_read_is_noticed(log: SqliteLog, file: LogFile) -> None:
    """Without the look at the end a task would give a part of its range for the whole."""
    topic = log.create_topic("t", 1)
    log.append("t", new(*(bytes(3 * MIB) for _ in range(3))))
    reading = file.batches(FileRange("t", topic.id, 0, 0, 3))
    next(reading)
    log.delete_topic("t")
    with pytest.raises(TopicReplaced):
        list(reading)


def test_reader_takes_topics_that_join_its_checkpoint_and_leaves_those_that_are_gone(
    log: SqliteLog, path: Path
) -> None:
    ids = {name: log.create_topic(name, 1).id for name in ("a", "b", "c")}
    for name in ids:
        log.append(name, new(b"1", b"2"))
    begun = SourceOffset({"a": ids["a"], "b": ids["b"]}, {("a", 0): 1, ("b", 0): 2})
    now = SourceOffset({"b": ids["b"], "c": ids["c"]}, {})
    reader = StreamReader(SourceOptions(str(path), 10.0, now, now))
    assert reader.reportLatestOffset() is None
    reached = reader.latestOffset(begun.to_json(), reader.getDefaultReadLimit())
    assert reached == SourceOffset(now.ids, {("b", 0): 2, ("c", 0): 2}).to_json() == reader.reportLatestOffset()
    assert [task.wanted for task in reader.partitions(begun.to_json(), reached)] == [FileRange("c", ids["c"], 0, 0, 2)]
    reader.stop()


def test_topic_made_again_ends_the_query_and_is_no_topic_of_its_checkpoint(
    spark: SparkSession, log: SqliteLog, follow: Follow
) -> None:
    log.create_topic("t", 1)
    log.append("t", new(b"1"))
    following = follow(read_stream(spark, log, ["t"]))
    query = following.start()
    following.wait_for(b"1")
    log.delete_topic("t")
    log.create_topic("t", 1)
    log.append("t", new(b"2", b"3"))
    with pytest.raises(StreamingQueryException, match="TopicReplaced: topic 't'"):
        query.awaitTermination(120)
    again = follow(read_stream(spark, log, ["t"]))
    with pytest.raises(StreamingQueryException, match="TopicReplaced"):
        again.run()
    assert (following.values, again.values) == ([b"1"], [])


def test_topic_made_again_after_its_first_batch_died_is_noticed(
    spark: SparkSession, log: SqliteLog, follow: Follow
) -> None:
    def die(number: int) -> None:
        raise RuntimeError(f"batch {number} dies")

    log.create_topic("t", 1)
    log.append("t", new(b"1"))
    with pytest.raises(StreamingQueryException, match="batch 0 dies"):
        follow(read_stream(spark, log, ["t"], {("t", 0): 0}), act=die).run()
    log.delete_topic("t")
    log.create_topic("t", 1)
    log.append("t", new(b"2"))
    again = follow(read_stream(spark, log, ["t"], {("t", 0): 0}))
    with pytest.raises(StreamingQueryException, match="TopicReplaced"):
        again.run()
    assert again.values == []


def test_log_being_written_to_is_read(spark: SparkSession, log: SqliteLog) -> None:
    """A writer never makes a reader wait, and what it has not committed is not there."""
    log.create_topic("t", 1)
    log.append("t", new(b"1"))
    with log.database.transaction() as tx:
        log.append("t", new(b"2"), tx=tx)
        database = open_database(DatabaseSettings(url=log.url, lock_timeout_s=1, auto_upgrade=False))
        other = SqliteLog(database, LogSettings(timeout_s=1))
        assert [record.value for record in records(read_batch(spark, other, ["t"]))] == [b"1"]
    database.close()


def test_missing_file_is_said_and_not_made(spark: SparkSession, log: SqliteLog, path: Path) -> None:
    log.create_topic("t", 1)
    moved = path.rename(path.with_name("moved.db"))
    with pytest.raises(LogUnavailable):
        read_batch(spark, log, ["t"])
    assert not path.exists()
    moved.rename(path)


@pytest.mark.parametrize("master", ["spark://10.0.0.1:7077", "yarn", "k8s://https://cluster"])
def test_executors_on_other_hosts_are_refused(log: SqliteLog, master: str) -> None:
    log.create_topic("t", 1)
    far: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    with pytest.raises(BadSettings, match="sqlite:///"):
        read_stream(far, log, ["t"])
