"""Both logs through Spark: the same records, in batches and in streams."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.support.logs import everything, new, wait_for_values
from tests.support.spark import Following, records

from towpath.errors import BadValue, OffsetOutOfRange, UnknownPartition, UnknownTopic
from towpath.log import Log, NewRecord, Record
from towpath.log.spark.columns import SCHEMA
from towpath.log.spark.source import read_batch, read_stream

Follow = Callable[..., Following]

pytestmark = pytest.mark.timeout(300)  # the first test waits for Spark and Kafka to start

HEADERS = (("type", b"click"), ("none", None), ("empty", b""), ("sig", b"\xff\x00\xfe"), ("type", "Straße".encode()))
ODD = [
    NewRecord(b"plain", key=b"k", timestamp_ms=1_700_000_000_123, partition=0),
    NewRecord(None, key=b"k", timestamp_ms=1_700_000_000_124, partition=0),
    NewRecord(b"", key=b"", timestamp_ms=1, partition=1, headers=HEADERS),
    NewRecord(b"\x00\xff\xfe", timestamp_ms=1_699_999_999_999, partition=1),
    NewRecord(b"x" * 100_000, key=b"\xff", timestamp_ms=1, partition=1, headers=(("a", b"1"),)),
]


def expected(topic: str) -> list[Record]:
    offsets = [0, 1, 0, 1, 2]
    return [
        Record(topic, each.partition or 0, offset, each.timestamp_ms or 0, each.key, each.value, each.headers)
        for offset, each in zip(offsets, ODD, strict=True)
    ]


def test_odd_records_come_as_they_are(spark: SparkSession, log: Log, name: str, follow: Follow) -> None:
    log.create_topic(name, 3, retention_s="never")
    log.append(name, ODD)
    batch, stream = read_batch(spark, log, [name]), read_stream(spark, log, [name])
    assert batch.schema == stream.schema == StructType.fromDDL(SCHEMA)
    assert records(batch) == follow(stream).run() == expected(name) == everything(log, name)


def test_batch_reads_the_ranges_it_is_told(spark: SparkSession, log: Log, name: str) -> None:
    log.create_topic(name, 2)
    log.append(name, [NewRecord(b"%d" % n, partition=n % 2) for n in range(10)])
    frame = read_batch(spark, log, [name], {(name, 0): 1}, {(name, 0): 3, (name, 1): 2})
    log.append(name, new(b"later"))
    assert [(record.partition, record.value) for record in records(frame)] == [
        (0, b"2"), (0, b"4"), (1, b"1"), (1, b"3"),
    ]  # fmt: skip


def test_several_topics_in_one_frame_and_an_empty_one(spark: SparkSession, log: Log, name: str) -> None:
    for suffix in ("a", "b", "empty"):
        log.create_topic(f"{name}-{suffix}", 2)
    log.append(f"{name}-a", new(b"1", b"2", b"3"))
    log.append(f"{name}-b", new(b"4"))
    frame = read_batch(spark, log, [f"{name}-b", f"{name}-empty", f"{name}-a"])
    assert records(frame) == everything(log, f"{name}-a") + everything(log, f"{name}-b")
    assert records(read_batch(spark, log, [f"{name}-empty"])) == []


def test_stream_starts_where_it_is_told_or_with_what_is_left(
    spark: SparkSession, log: Log, name: str, follow: Follow
) -> None:
    log.create_topic(name, 3)
    log.append(name, [NewRecord(b"%d" % n, partition=n % 3) for n in range(15)])
    log.delete_before(name, {1: 4, 2: 1})
    stream = read_stream(spark, log, [name], {(name, 0): 3, (name, 1): 2})
    assert [(record.partition, record.offset) for record in follow(stream).run()] == [
        *((0, offset) for offset in (3, 4)),
        (1, 4),
        *((2, offset) for offset in range(1, 5)),
    ]


def test_available_now_ends_with_what_was_there_and_keeps_the_limit(
    spark: SparkSession, log: Log, name: str, follow: Follow
) -> None:
    log.create_topic(name, 3)
    log.append(name, [NewRecord(b"%02d" % n, partition=min(n, 2)) for n in range(25)])
    there = everything(log, name)
    stream = read_stream(spark, log, [name], max_records_per_trigger=10)
    following = follow(stream, act=lambda number: log.append(name, new(b"later")) and None)
    assert following.run() == there
    # Kafka's source rounds the share of each partition up.
    assert [len(batch) <= 12 for batch in following.batches] == [True] * len(following.batches)
    assert len(following.batches) >= 3


def test_running_query_sees_new_records_and_new_partitions(
    spark: SparkSession, log: Log, name: str, follow: Follow
) -> None:
    log.create_topic(name, 1)
    following = follow(read_stream(spark, log, [name]))
    following.start()
    log.append(name, new(b"1"))
    following.wait_for(b"1")
    log.add_partitions(name, 3)
    log.append(name, [NewRecord(b"2", partition=2), NewRecord(b"3", partition=0)])
    following.wait_for(b"1", b"2", b"3")


def test_aborted_records_are_not_seen(spark: SparkSession, log: Log, name: str, follow: Follow) -> None:
    log.create_topic(name, 1)
    producer = log.producer(name)
    with producer.transaction() as tx:
        tx.append(name, new(b"1"))
    with pytest.raises(ZeroDivisionError), producer.transaction() as tx:
        tx.append(name, new(b"aborted"))
        raise ZeroDivisionError
    with producer.transaction() as tx:
        tx.append(name, new(b"2"))
    wait_for_values(log, name, b"1", b"2")
    there = everything(log, name)
    assert records(read_batch(spark, log, [name])) == there
    assert follow(read_stream(spark, log, [name])).run() == there
    producer.close()


def test_a_query_goes_on_where_its_checkpoint_is(spark: SparkSession, log: Log, name: str, follow: Follow) -> None:
    log.create_topic(name, 2)
    log.append(name, new(b"1", b"2"))
    assert sorted(follow(read_stream(spark, log, [name])).run(), key=lambda r: r.value or b"")[0].value == b"1"
    log.append(name, new(b"3"))
    log.add_partitions(name, 3)
    log.append(name, [NewRecord(b"4", partition=2)])
    assert sorted(record.value or b"" for record in follow(read_stream(spark, log, [name])).run()) == [b"3", b"4"]


def test_records_that_expire_under_a_query_are_left_out(
    spark: SparkSession, log: Log, name: str, follow: Follow
) -> None:
    log.create_topic(name, 1)
    log.append(name, new(*(b"%d" % n for n in range(9))))
    frame = read_batch(spark, log, [name])
    stream = read_stream(spark, log, [name], {(name, 0): 0}, max_records_per_trigger=3)

    def expire(number: int) -> None:
        if number == 1:
            log.delete_before(name, {0: 5})

    read = {record.offset for record in follow(stream, act=expire).run()}
    assert read - {3, 4} == {0, 1, 2, 5, 6, 7, 8}  # Kafka's consumer may have fetched two that were still there
    assert [record.offset for record in records(frame)] == [5, 6, 7, 8]


def test_what_is_wrong_with_a_call_is_said_before_spark_starts(spark: SparkSession, log: Log, name: str) -> None:
    log.create_topic(name, 1)
    log.append(name, new(b"1"))
    with pytest.raises(UnknownTopic):
        read_stream(spark, log, [name, f"{name}-not"])
    with pytest.raises(UnknownPartition):
        read_stream(spark, log, [name], {(name, 1): 0})
    with pytest.raises(OffsetOutOfRange) as caught:
        read_stream(spark, log, [name], {(name, 0): 2})
    assert caught.value.offset == 2
    with pytest.raises(OffsetOutOfRange):
        read_batch(spark, log, [name], ending={(name, 0): 2})
    with pytest.raises(OffsetOutOfRange):
        read_batch(spark, log, [name], {(name, 0): -1})
    with pytest.raises(BadValue, match="read"):
        read_batch(spark, log, [name], {("other", 0): 0})
    with pytest.raises(BadValue, match="one"):
        read_batch(spark, log, [])
    with pytest.raises(BadValue, match="1"):
        read_stream(spark, log, [name], max_records_per_trigger=0)
