"""A query whose first batch died starts where it was told, whatever has become of its topic meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.support.logs import new
from tests.support.spark import Following

from towpath.db import open_database
from towpath.log import Log, NewRecord, open_log
from towpath.log.spark.source import read_stream
from towpath.settings import DatabaseSettings, LogSettings

Follow = Callable[..., Following]
ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.timeout(300)  # the first test waits for Spark and Kafka to start

KILLED = """
import json, os, signal, sys
from pathlib import Path
from tests.support.spark import Following
from towpath.db import open_database
from towpath.log import open_log
from towpath.log.spark.source import read_stream
from towpath.settings import DatabaseSettings, LogSettings, SparkSettings
from towpath.spark.session import build_session

database, checkpoint = json.loads(sys.argv[1])
log = open_log(LogSettings(), open_database(DatabaseSettings(url=database)))
stream = read_stream(build_session(SparkSettings(master="local[1]")), log, ["t"], {("t", 0): 3})
Following(stream, Path(checkpoint), act=lambda number: os.kill(os.getpid(), signal.SIGKILL)).run()
"""


def die(number: int) -> None:
    raise RuntimeError(f"batch {number} dies")


@pytest.mark.part("kills")
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


@pytest.mark.part("kills")
def test_process_killed_in_its_first_batch_is_followed_by_one_that_starts_where_it_was_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    url, checkpoint = f"sqlite:///{tmp_path}/towpath.db", tmp_path / "checkpoint"
    with closing(open_database(DatabaseSettings(url=url))) as database:
        log = open_log(LogSettings(), database)
        log.create_topic("t", 1)
        log.append("t", new(*(b"%d" % n for n in range(8))))
        command = [sys.executable, "-c", KILLED, json.dumps([url, str(checkpoint)])]
        done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, timeout=240, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        log.delete_before("t", {0: 2})
        log.append("t", new(b"later"))
        successor = Following(read_stream(spark, log, ["t"], {("t", 0): 3}), checkpoint)
        successor.run()
    assert [[record.offset for record in batch] for batch in successor.batches] == [[3, 4, 5, 6, 7], [8]]
