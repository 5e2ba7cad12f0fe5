"""Intake from Kafka: offsets that hold nothing, aborted transactions, several partitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.desk import DeskFlow, check_tallies, intake_of, rows, take_all

from towpath.flow.records.errors import error_records
from towpath.flow.worker.report import FailedRecord
from towpath.runtime import Runtime
from towpath.stack.kafka import KafkaServer
from towpath.testing.clock import wait_until


def test_transactions_and_partitions(
    make_runtime: Callable[..., Runtime], kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"t-{uuid4().hex[:8]}"
    desk = make_runtime(log={"url": kafka.url, "namespace": name})
    flow = DeskFlow(desk, name, partitions=3)
    producer = desk.log.producer(f"{name}.main")
    for number in range(4):
        with producer.transaction() as tx:
            tx.append(flow.topics.errors, errors_of(flow, range(number * 10, number * 10 + 10)))
    with pytest.raises(ZeroDivisionError), producer.transaction() as tx:
        tx.append(flow.topics.errors, errors_of(flow, range(100, 110)))
        tx.flush()  # the broker has them, and has to undo them
        raise ZeroDivisionError
    producer.close()
    log, errors = desk.log, flow.topics.errors
    wait_until(lambda: log.ends(errors) == log.written_ends(errors), what="the ends of all transactions")
    intake = intake_of(desk)
    assert take_all(intake) == 40
    offsets = rows(desk.database, "select start_offset from desk_case order by 1")
    assert [offset for (offset,) in offsets] == list(range(40))
    read = rows(desk.database, "select partition, position from desk_position where kind = 'errors' order by 1")
    assert dict(read) == desk.log.ends(flow.topics.errors)
    assert take_all(intake) == 0
    check_tallies(desk.database)


def errors_of(flow: DeskFlow, offsets: range) -> list[Any]:
    from tests.support.desk import NO_CITY

    failed = [FailedRecord("orders", 0, at, 1_000 + at, b"k%d" % at, b"{}", (), NO_CITY, None, None) for at in offsets]
    return list(error_records(failed, flow.batch("b0"), {"orders": "orders-id"}))
