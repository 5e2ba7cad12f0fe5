"""A query whose first batch died starts where it was told, whatever has become of its topic meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.support.logs import new
from tests.support.spark import Following

from towpath.log import Log, NewRecord
from towpath.log.spark_source import read_stream

Follow = Callable[..., Following]


def die(number: int) -> None:
    raise RuntimeError(f"batch {number} dies")


@pytest.mark.parametrize("deleted_before", [2, 5])
def test_first_batch_that_died_is_read_again_from_where_it_was_told(
    spark: SparkSession, log: Log, name: str, follow: Follow, deleted_before: int
) -> None:
    """Without the start in its options the source would say 0 at first and 2 at the restart, and never 3."""
    log.create_topic(name, 2)
    log.append(name, [NewRecord(b"%d" % n, partition=0) for n in range(8)])

    starting = {(name, 0): 3, (name, 1): 0}
    with pytest.raises(StreamingQueryException, match="batch 0 dies"):
        follow(read_stream(spark, log, [name], starting), act=die).run()
    log.delete_before(name, {0: deleted_before})
    log.append(name, [NewRecord(b"later", partition=0), NewRecord(b"other", partition=1)])

    restarted = follow(read_stream(spark, log, [name], starting))
    restarted.run()
    first = [record.offset for record in restarted.batches[0]]
    assert first == [offset for offset in range(3, 8) if offset >= deleted_before]
    assert [record.value for record in restarted.records][len(first) :] == [b"later", b"other"]


def test_later_batch_that_died_is_read_again_whole(spark: SparkSession, log: Log, name: str, follow: Follow) -> None:
    log.create_topic(name, 1)
    log.append(name, new(b"1", b"2"))
    follow(read_stream(spark, log, [name])).run()
    log.append(name, new(b"3", b"4"))
    with pytest.raises(StreamingQueryException, match="batch 1 dies"):
        follow(read_stream(spark, log, [name]), act=die).run()
    log.append(name, new(b"5"))
    last = follow(read_stream(spark, log, [name]))
    last.run()
    assert [[record.value for record in batch] for batch in last.batches] == [[b"3", b"4"], [b"5"]]
