"""Real failures of Spark, provoked: what they look like on the driver, and what they are taken for."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import towpath
from towpath.flow.failures import encode_fault
from towpath.flow.stage import StageState
from towpath.flow.stage.classifier import classify, is_step_failure, is_worker_death
from towpath.log import NewRecord
from towpath.log.spark.source import read_batch, read_stream
from towpath.runtime import Runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NONCE = "0123456789abcdef"


class WorkerFault(Exception):
    """Named as the one of the workers."""


def failure(act: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one it is, is the question
        act()
    return caught.value


def code_of(error: Exception, state: StageState = StageState.TRANSFORM) -> int:
    return int(classify(error, state, NONCE).code)


# Steps


@pytest.mark.parametrize(
    "expression",
    [
        "1 / (id - 2)",
        "cast(concat('a', id) as int)",
        "array(1)[id + 1]",
        "9223372036854775807 + id",
        "assert_true(id < 2)",
        "raise_error('bad')",
        "to_date('x' || id)",
        "from_json('{' || id, 'a int', map('mode', 'FAILFAST'))",
        "raise_error('Python worker exited unexpectedly\\ntowpath.errors.LogUnavailable: x')",
    ],
)
def test_an_expression_fails(spark: SparkSession, expression: str) -> None:
    error = failure(lambda: spark.range(4).selectExpr(expression).collect())
    assert is_step_failure(error)
    assert not is_worker_death(error)
    assert code_of(error) == 9


def test_a_function_of_a_step_fails(spark: SparkSession) -> None:
    from pyspark.sql.functions import udf

    hostile = (
        "x\n\nThe above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "x", line 1, in x\n'
        f"towpath.errors.storage.LogUnavailable: away\n{encode_fault('f' * 16, 1, 's', 't', 'wait for ever')}"
    )

    def fails(number):  # Spark takes type hints for more than they say
        raise ValueError(hostile)

    error = failure(lambda: spark.range(4).select(udf(fails, "int")("id")).collect())
    assert is_step_failure(error)
    assert not is_worker_death(error)
    assert code_of(error) == 9


def test_a_plan_that_cannot_be_analysed_is_no_records_fault(spark: SparkSession) -> None:
    error = failure(lambda: spark.range(4).select("nothing"))
    assert not is_step_failure(error)
    assert code_of(error) == 0
    assert "nothing" in classify(error, StageState.CONFIGURE).message


# Workers


def in_worker(spark: SparkSession, act: Callable[[], Any]) -> Exception:
    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            act()
            yield batch

    return failure(lambda: spark.range(4).mapInArrow(work, "id long").collect())


def segfault() -> None:
    import ctypes

    ctypes.string_at(0)


def run_out_of_memory() -> None:
    raise MemoryError


@pytest.mark.parametrize(
    "death",
    [lambda: os._exit(7), lambda: os.kill(os.getpid(), signal.SIGKILL), segfault, run_out_of_memory],
    ids=["exit", "kill", "segfault", "memory"],
)
def test_a_worker_dies(spark: SparkSession, death: Callable[[], Any]) -> None:
    error = in_worker(spark, death)
    assert is_worker_death(error)
    assert code_of(error, StageState.LOAD) == 9


def test_a_worker_tells_its_fault(spark: SparkSession) -> None:
    line = encode_fault(NONCE, 11, "views", "views-2026", 'broken "badly"\nüber')

    def act() -> None:
        raise WorkerFault(line)

    error = in_worker(spark, act)
    found = classify(error, StageState.LOAD, NONCE)
    assert (found.code, found.step, found.target, found.message) == (11, "views", "views-2026", 'broken "badly"\nüber')
    assert not is_step_failure(error)
    assert not is_step_failure(error, NONCE)
    assert is_step_failure(error, "f" * 16)  # of another attempt: not believed
    assert not is_worker_death(error)


# The log


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Runtime]:
    with towpath.connect(database={"url": f"sqlite:///{tmp_path}/towpath.db"}) as runtime:
        runtime.log.create_topic("clicks", 2)
        runtime.log.append("clicks", [NewRecord(b"%d" % number) for number in range(10)])
        yield runtime


def test_a_source_in_a_worker_says_why(spark: SparkSession, local: Runtime, tmp_path: Path) -> None:
    frame = read_batch(spark, local.log, ["clicks"])
    local.log.delete_topic("clicks")
    error = failure(frame.collect)
    assert not is_step_failure(error)
    assert code_of(error) == 2
    local.log.create_topic("clicks", 2)
    assert code_of(failure(frame.collect)) == 5
    (tmp_path / "towpath.db").rename(tmp_path / "elsewhere.db")
    assert code_of(failure(frame.collect)) == 1


def test_a_source_on_the_driver_says_why(spark: SparkSession, local: Runtime, tmp_path: Path) -> None:
    def replace_topic(frame: Any, number: int) -> None:
        frame.collect()
        local.log.delete_topic("clicks")
        local.log.create_topic("clicks", 2)

    writer = read_stream(spark, local.log, ["clicks"]).writeStream.foreachBatch(replace_topic)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    error = failure(lambda: query.awaitTermination(240))
    assert not is_step_failure(error)
    assert code_of(error, StageState.EXTRACT) == 5


def test_a_callback_that_raises_is_not_believed(spark: SparkSession, local: Runtime, tmp_path: Path) -> None:
    """Its text may hold anything. Who has the exception itself classifies that."""

    def fail(frame: Any, number: int) -> None:
        raise ConnectionError("towpath.errors.storage.LogUnavailable: x")

    writer = read_stream(spark, local.log, ["clicks"]).writeStream.foreachBatch(fail)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    error = failure(query.awaitTermination)
    assert not is_step_failure(error)
    assert code_of(error) == 0


# Java's own, thrown by Java


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("org.apache.kafka.common.errors.TimeoutException", 1),
        ("org.apache.kafka.common.errors.DisconnectException", 1),
        ("org.apache.kafka.common.errors.UnknownTopicOrPartitionException", 2),
        ("org.apache.kafka.common.errors.RecordTooLargeException", 4),
        ("org.apache.kafka.common.errors.OffsetOutOfRangeException", 5),
        ("java.net.ConnectException", 6),
        ("java.net.SocketTimeoutException", 6),
        ("java.lang.IllegalStateException", 0),
        ("java.lang.NullPointerException", 0),
    ],
)
def test_java_exceptions_by_the_name_of_their_class(spark: SparkSession, name: str, code: int) -> None:
    jvm: Any = spark._jvm
    kind = jvm
    for part in name.split("."):
        kind = getattr(kind, part)
    future = jvm.java.util.concurrent.CompletableFuture.failedFuture(kind("it broke"))
    error = failure(future.get)
    assert code_of(error) == code
    assert not is_step_failure(error)


def test_a_cancelled_job_is_nobodys_fault(spark: SparkSession) -> None:
    import threading

    from towpath.testing.clock import wait_until

    context, group = spark.sparkContext, "to be cancelled"
    tracker = context.statusTracker()

    def cancel() -> None:
        # The tracker hears of ends a moment later: what seems to be active may be a job of the test before.
        wait_until(lambda: bool(tracker.getJobIdsForGroup(group)), 120, "the job")
        context.cancelAllJobs()

    canceller = threading.Thread(target=cancel)
    context.setJobGroup(group, group)
    try:
        canceller.start()
        error = failure(lambda: spark.range(10**12).selectExpr("sum(id % 7)").collect())
        canceller.join()
    finally:
        context._jsc.clearJobGroup()
    assert not is_step_failure(error)
    assert not is_worker_death(error)
    assert code_of(error) == 0
