"""Records that come back through the re-entry topic: the same deliveries as when they were read for the first time."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.support.flows import World
from tests.support.logs import shown

from towpath import Flow, table, topic
from towpath.flow.audit.audit import Audit
from towpath.flow.delivery.ids import InputCoordinates, delivery_id
from towpath.flow.failures import ErrorCode
from towpath.flow.records.errors import ErrorRecord
from towpath.flow.records.reentry import (
    CancelledReplays,
    OutcomeRecord,
    ReplayFate,
    first_reading,
    reentry_record,
    said_by,
)
from towpath.log import NewRecord, Record
from towpath.testing.clock import wait_until


def replayed(name: str, home: Path, clicks: str, orders: str | None = None) -> Flow:
    """A step that takes one topic only, and a function that looks at coordinates; perhaps a stage beside them."""
    flow = Flow(name)

    @flow.step(topic(clicks), schema="n int", topics=[clicks])
    def taken(rows: Any) -> Any:
        return rows.where("n >= 0")

    @flow.each(taken)
    def inverse(row: dict[str, Any], record: Any) -> dict[str, Any] | None:
        at = [record.topic == clicks, record.partition, record.offset, record.timestamp_ms, record.id]
        return None if row["n"] == 12 else {"n": row["n"], "inverse": 12 // row["n"], "at": at}

    flow.load(inverse, table("clicks", url=f"sqlite:///{home}/out.db"), name="clicks")
    if orders is not None:
        flow.load(topic(orders), table("orders", url=f"sqlite:///{home}/out.db"), name="orders")
    return flow


def rows(home: Path) -> dict[str, tuple[bytes, dict[str, Any]]]:
    with sqlite3.connect(home / "out.db") as connection:
        found = connection.execute("select id, delivery_id, document from clicks").fetchall()
    return {id: (delivery, json.loads(document)) for id, delivery, document in found}


def failed_records(world: World, flow: Flow) -> list[Record]:
    return sorted(shown(world.runtime.log, flow.error_topic), key=lambda record: record.value or b"")


def test_a_replay_is_the_same_delivery(world: World, name: str) -> None:
    clicks, orders, log = f"{name}-clicks", f"{name}-orders", world.runtime.log
    flow = replayed(name, world.home, clicks, orders)
    world.send(clicks, [{"n": 1}, {"n": 0}, {"n": 2}, {"n": 0, "again": True}], partitions=1)
    world.send(orders, [{"n": 1}], partitions=1)
    world.run(flow)
    first, second = failed_records(world, flow)
    assert (ErrorRecord.read(first).offset, ErrorRecord.read(second).offset) == (3, 1)
    old_id = log.topic(clicks).id

    log.append(
        f"{name}.reentry",
        [
            reentry_record(first, "case-1", 2, b'{"n": 3}'),
            reentry_record(second, "case-2", 2),
            reentry_record(first, "case-3", 2, b'{"n": -1}'),
            reentry_record(first, "case-4", 2, b'{"n": 12}'),
            NewRecord(b'{"n": 4}'),
        ],
    )
    world.run(flow)
    found = rows(world.home)
    id = f"{clicks}:0:0:3"
    assert sorted(found) == [f"{clicks}:0:0:0", f"{clicks}:0:0:2", id]
    delivery, document = found[id]
    input = InputCoordinates(old_id, 0, 3)
    assert delivery == delivery_id(name, clicks, input, "clicks", 0)
    said = said_by(first.headers)
    of_input = delivery_id(name, clicks, input, "", 0).hex()
    assert document["at"] == [True, 0, 3, int(said["towpath.timestamp"]), of_input]

    [again] = [each for each in failed_records(world, flow) if said_by(each.headers).get("towpath.attempt") == "2"]
    error = ErrorRecord.read(again)
    assert (error.topic, error.failure.exception) == (f"{name}.reentry", "ZeroDivisionError")
    assert (error.attempt, error.correlation) == (2, "case-2")
    assert first_reading(said_by(again.headers))[1:5] == (clicks, old_id, 0, 1)
    assert first_reading(said_by(reentry_record(again, "case-2", 3).headers))[1:5] == (clicks, old_id, 0, 1)
    [garbage] = [
        each for each in failed_records(world, flow) if ErrorRecord.read(each).failure.step == f"{name}.reentry"
    ]
    assert ErrorRecord.read(garbage).failure.code is ErrorCode.NOT_VALID
    assert ErrorRecord.read(garbage).stage == clicks, "the first stage answers for what is for none"

    totals = {batch.stage: batch.counts for batch in world.batches(flow)}
    assert totals[orders] == {
        "read": 5,
        "loaded": 0,
        "filtered": {"re-entry of another stage": 5},
        "failed": {},
        "delivered": {},
    }
    told = [OutcomeRecord.read(record) for record in shown(log, f"{name}.outcomes")]
    assert {(each.stage, each.correlation, each.attempt, each.fate, each.step) for each in told} == {
        (clicks, "case-1", 2, ReplayFate.LOADED, ""),
        (clicks, "case-2", 2, ReplayFate.FAILED, "inverse"),
        (clicks, "case-3", 2, ReplayFate.FILTERED, "taken"),
        (clicks, "case-4", 2, ReplayFate.FILTERED, "inverse"),
    }
    assert len(told) == 4
    assert {each.hash for each in told} <= {batch.hash for batch in world.batches(flow)}
    verdict = Audit(world.runtime.database, log, name, flow).run()
    assert verdict.problems == []
    assert (verdict.balance.arrived, verdict.balance.returned, verdict.balance.difference) == (5, 10, 0)


@pytest.mark.part("flows")
def test_what_comes_back_of_a_topic_that_was_made_again_keeps_its_old_names(embedded: World) -> None:
    flow = replayed("f", embedded.home, "clicks")
    log = embedded.runtime.log
    embedded.send("clicks", [{"n": 0}], partitions=1)
    embedded.run(flow)
    [failed] = failed_records(embedded, flow)
    old_id = log.topic("clicks").id
    log.delete_topic("clicks")
    wait_until(lambda: "clicks" not in {each.name for each in log.topics()}, 30)
    embedded.send("clicks", [{"n": 1}], partitions=1)
    log.append("f.reentry", [reentry_record(failed, "case", 2, b'{"n": 2}')])
    embedded.run(flow)
    found = rows(embedded.home)
    assert {id: document["n"] for id, (_, document) in found.items()} == {"clicks:1:0:0": 1, "clicks:0:0:0": 2}
    assert found["clicks:0:0:0"][0] == delivery_id("f", "clicks", InputCoordinates(old_id, 0, 0), "clicks", 0)
    assert found["clicks:0:0:0"][1]["at"][4] == delivery_id("f", "clicks", InputCoordinates(old_id, 0, 0), "", 0).hex()


def test_what_was_called_back_is_passed_over(world: World, name: str) -> None:
    """The same try of a case under another ticket counts, and only that one has an outcome."""
    clicks, log = f"{name}-clicks", world.runtime.log
    flow = replayed(name, world.home, clicks)
    world.send(clicks, [{"n": 0}], partitions=1)
    world.run(flow)
    [failed] = failed_records(world, flow)
    with world.runtime.database.transaction() as tx:
        CancelledReplays(world.runtime.database).add(tx, name, [("case-1", 1)])
    log.append(
        f"{name}.reentry",
        [
            reentry_record(failed, "case-1", 2, b'{"n": 5}', ticket=1),
            reentry_record(failed, "case-1", 2, b'{"n": 3}', ticket=3),
        ],
    )
    world.run(flow)
    assert {id: document["n"] for id, (_, document) in rows(world.home).items()} == {f"{clicks}:0:0:0": 3}
    told = [OutcomeRecord.read(record) for record in shown(log, f"{name}.outcomes")]
    assert [(each.correlation, each.attempt, each.fate) for each in told] == [("case-1", 2, ReplayFate.LOADED)]
    [counts] = [batch.counts for batch in world.batches(flow) if batch.batch_id == 1]
    assert (counts["read"], counts["loaded"], counts["filtered"]) == (2, 1, {"called back by the desk": 1})
    verdict = Audit(world.runtime.database, log, name, flow).run()
    assert verdict.problems == []
    assert (verdict.balance.returned, verdict.balance.difference) == (2, 0)
