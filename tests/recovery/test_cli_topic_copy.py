"""A copy that is killed and started again neither loses nor doubles a record."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.commands import run
from tests.support.logs import everything

from towpath.core.crash import VARIABLE
from towpath.db import open_database
from towpath.log import Log, NewRecord, open_log
from towpath.settings import DatabaseSettings, LogSettings
from towpath.stack.kafka import KafkaServer
from towpath.testing.clock import wait_until

PARTITIONS = 3
RECORDS = 300
# One transaction says where the copy begins, then each partition has one.
POINTS = [
    "producer_opened",
    "log_transaction_filled:1",
    "log_transaction_before_commit:1",
    "log_transaction_after_commit:1",
    "log_transaction_filled:2",
    "log_transaction_before_commit:2",
    "log_transaction_after_commit:3",
    "log_transaction_before_commit:4",
    "log_transaction_after_commit:4",
]
GATE_POINTS = {"log_transaction_filled:2", "log_transaction_after_commit:3"}  # these end within the copy


@pytest.fixture(params=["kafka", "sqlite"])
def logs(request: pytest.FixtureRequest, tmp_path: Path, kafka: KafkaServer) -> Iterator[tuple[Log, Log]]:
    """The log to copy from and the one to copy to, which is the parameter."""
    url = f"sqlite:///{tmp_path}/towpath.db"
    database = open_database(DatabaseSettings(url=url))
    both = [open_log(LogSettings(url=each), database) for each in ("embedded", kafka.url)]
    yield (both[0], both[1]) if request.param == "kafka" else (both[1], both[0])
    for log in both:
        log.close()
    database.close()


def contents(log: Log, name: str) -> list[tuple[Any, ...]]:
    return [(record.partition, *record[3:]) for record in everything(log, name)]


@pytest.mark.parametrize(
    "point",
    [pytest.param(each, marks=() if each in GATE_POINTS else pytest.mark.part("kills")) for each in POINTS],
)
def test_a_copy_goes_on_after_a_kill_at(point: str, logs: tuple[Log, Log], tmp_path: Path) -> None:
    source, target = logs
    name, copied = f"t-{uuid4().hex[:12]}", f"t-{uuid4().hex[:12]}-copy"
    source.create_topic(name, PARTITIONS, retention_s="never")
    source.append(name, [NewRecord(b"%d" % n, b"k%d" % (n % 11), timestamp_ms=1 + n) for n in range(RECORDS)])
    words = ["topic", "copy", name, copied, "--from", source.url, "--to", target.url]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TOWPATH_")}
    environment["TOWPATH_DATABASE__URL"] = f"sqlite:///{tmp_path}/towpath.db"

    killed = run(*words, env={**environment, VARIABLE: point})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run(*words, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    # Kafka shows a committed transaction a moment after its commit.
    wait_until(lambda: len(contents(target, copied)) >= RECORDS, what="the records of the copy")
    assert contents(target, copied) == contents(source, name)
    assert len(contents(target, copied)) == RECORDS
