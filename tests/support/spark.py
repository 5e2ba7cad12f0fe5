"""One Spark session for the whole run, and queries whose rows a test can look at."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from towpath.log import Record
from towpath.settings import SparkSettings
from towpath.spark.session import build_session
from towpath.testing.clock import wait_until
from towpath.testing.quick_python import quick_python

if TYPE_CHECKING:  # loaded with every test, also with those that have nothing to do with Spark
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


PYTHON = "TESTS_PYTHON"  # a variable: the program that Spark is to take for Python


def spark_settings(master: str = "local[2]") -> dict[str, Any]:
    """The `[spark]` settings of every test that does not ask for others."""
    python = os.environ.get(PYTHON)
    return {"master": master, **({"conf": {"spark.pyspark.python": python}} if python else {})}


@pytest.fixture(scope="session")
def forked_pythons() -> Iterator[None]:
    """Spark's Python processes are forked from one that has loaded everything."""
    if PYTHON in os.environ:
        yield
        return
    with quick_python() as program:
        os.environ[PYTHON] = str(program)
        yield
        del os.environ[PYTHON]


@pytest.fixture(scope="session")
def spark(forked_pythons: None) -> Iterator[SparkSession]:
    """A process has one session: all tests share it."""
    session = build_session(SparkSettings(**spark_settings()), "towpath-tests", connector=True)
    yield session
    session.stop()


def records(frame: DataFrame) -> list[Record]:
    """The rows as the log itself would give them, by topic, partition and offset."""
    with_millis = frame.selectExpr("*", "unix_millis(timestamp) as millis").orderBy("topic", "partition", "offset")
    return [
        Record(
            row.topic,
            row.partition,
            row.offset,
            row.millis,
            _bytes(row.key),
            _bytes(row.value),
            tuple((header.key, _bytes(header.value)) for header in row.headers or ()),
        )
        for row in with_millis.collect()
    ]


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


class Following:
    """A streaming query that keeps what each of its batches held."""

    def __init__(self, frame: DataFrame, checkpoint: Path, act: Callable[[int], None] | None = None) -> None:
        self._frame = frame
        self._checkpoint = checkpoint
        self._act = act  # called with the number of the batch, before anything else
        self.batches: list[list[Record]] = []
        self.query: StreamingQuery | None = None

    def run(self) -> list[Record]:
        """All that is there now."""
        self.start(availableNow=True).awaitTermination()
        return self.records

    def start(self, **trigger: Any) -> StreamingQuery:
        writer = self._frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._checkpoint))
        self.query = (writer.trigger(**trigger) if trigger else writer).start()
        return self.query

    def wait_for(self, *values: bytes, timeout_s: float = 120.0) -> None:
        wait_until(
            lambda: sorted(map(repr, self.values)) == sorted(map(repr, values)), timeout_s, f"{values} in the query"
        )

    @property
    def records(self) -> list[Record]:
        return sorted(record for batch in self.batches for record in batch)

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]

    def _take(self, frame: DataFrame, number: int) -> None:
        if self._act is not None:
            self._act(number)
        self.batches.append(records(frame))


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Callable[..., Following]]:
    """Makes streaming queries, all on the one checkpoint of the test, and stops them."""
    made: list[Following] = []

    def make(frame: DataFrame, act: Callable[[int], None] | None = None) -> Following:
        made.append(Following(frame, tmp_path / "checkpoint", act))
        return made[-1]

    yield make
    for following in made:
        if following.query is not None:
            following.query.stop()
