"""`Flow(order="key")`: behind a record that has failed, none of its key is tried, until all of it is settled."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.flows import World
from tests.support.logs import shown
from tests.support.tables import rows

from towpath import Flow, table, topic
from towpath.core import crash
from towpath.core.crash import Armed, Crashed, CrashPoint
from towpath.db import Database
from towpath.errors import BadFlow
from towpath.flow.delivery.ledger import HeldKeys, hash_of
from towpath.flow.records.errors import ErrorRecord
from towpath.flow.records.reentry import reentry_record
from towpath.flow.run.attempt import KEY_HELD, hash_column
from towpath.log import NewRecord, Record
from towpath.runtime import Runtime


def ordered(name: str, source: str, world: World) -> Flow:
    flow = Flow(name, order="key")

    @flow.each(topic(source), schema="n int", deterministic=True)
    def positive(row: dict[str, Any]) -> dict[str, Any]:
        if row["n"] < 0:
            raise ValueError("below zero")
        return row

    flow.load(positive, table("out", url=f"sqlite:///{world.home}/out.db"), name="out")
    return flow


def send(world: World, source: str, *records: tuple[str | None, int], partitions: int = 2) -> None:
    log = world.runtime.log
    if source not in {each.name for each in log.topics()}:
        log.create_topic(source, partitions)
    texts = [(key, json.dumps({"n": n}).encode()) for key, n in records]
    log.append(source, [NewRecord(text, None if key is None else key.encode()) for key, text in texts])


def loaded(world: World) -> list[int]:
    with sqlite3.connect(world.home / "out.db") as connection:
        found = connection.execute("select document from out order by rowid").fetchall()
    return [json.loads(document)["n"] for (document,) in found]


def failed(world: World, flow: Flow) -> list[tuple[str, int, str]]:
    """Key, number and exception of what lies in the error topic, by number."""
    found = [(each, ErrorRecord.read(each)) for each in shown(world.runtime.log, flow.error_topic)]
    assert {read.order for each, read in found if each.key is not None} <= {"key"}
    told = [
        ((each.key or b"").decode(), json.loads(each.value or b"")["n"], read.failure.exception) for each, read in found
    ]
    return sorted(told, key=lambda each: abs(each[1]))


def held(database: Database) -> dict[str, tuple[int, int]]:
    return {row["key_hash"]: (row["sent"], row["settled"]) for row in rows(database, "flow_held_key")}


def come_back(world: World, flow: Flow, *numbers: int, value: bytes | None = None) -> None:
    """As the desk does it: what has failed is sent back, one after the other."""
    records = {json.loads(each.value or b"")["n"]: each for each in shown(world.runtime.log, flow.error_topic)}
    chosen: Sequence[Record] = [records[n] for n in numbers]
    back = [reentry_record(each, f"case-{n}", 2, value) for n, each in zip(numbers, chosen, strict=True)]
    world.runtime.log.append(f"{flow.name}.reentry", [each._replace(partition=0) for each in back])


def settle(world: World, flow: Flow, key: str, count: int = 1) -> None:
    database = world.runtime.database
    [stage] = flow.stages()
    with database.transaction() as tx:
        HeldKeys(database).settle(tx, [(flow.name, stage.name, hash_of(key.encode()))] * count)


@pytest.mark.part("flows")
def test_behind_one_that_has_failed_none_of_its_key_is_tried(world: World, name: str) -> None:
    source = f"{name}-in"
    flow = ordered(name, source, world)
    send(world, source, ("a", 1), ("b", 2), ("a", -3), ("a", 4), ("b", 5), ("a", 6), (None, 7))
    world.run(flow)
    assert sorted(loaded(world)) == [1, 2, 5, 7]
    assert failed(world, flow) == [("a", -3, "ValueError"), ("a", 4, KEY_HELD), ("a", 6, KEY_HELD)]
    assert held(world.runtime.database) == {hash_of(b"a"): (3, 0)}

    send(world, source, ("a", 8), ("b", 9))
    world.run(flow)
    assert sorted(loaded(world)) == [1, 2, 5, 7, 9], "what comes later waits too"
    assert failed(world, flow)[-1] == ("a", 8, KEY_HELD)

    come_back(world, flow, -3, value=b'{"n": 3}')
    world.run(flow)
    settle(world, flow, "a")
    come_back(world, flow, 4, 6, 8)
    world.run(flow)
    settle(world, flow, "a", 3)
    assert loaded(world)[5:] == [3, 4, 6, 8], "in their order, and what comes back is never held"
    send(world, source, ("a", 10))
    world.run(flow)
    assert loaded(world)[9:] == [10]
    assert held(world.runtime.database) == {}


def test_a_key_is_held_until_all_that_was_sent_of_it_is_settled(embedded: World) -> None:
    """What is on its way to the desk when the first one is settled is behind it still."""
    flow = ordered("f", "in", embedded)
    send(embedded, "in", ("a", -1), ("a", 2), partitions=1)
    embedded.run(flow)
    settle(embedded, flow, "a")
    send(embedded, "in", ("a", 3))
    embedded.run(flow)
    assert loaded(embedded) == []
    settle(embedded, flow, "a", 2)
    send(embedded, "in", ("a", 4))
    embedded.run(flow)
    assert loaded(embedded) == [4]


def test_settled_before_its_batch_is_committed(runtime: Runtime) -> None:
    """The desk may be quicker than the commit."""
    keys = HeldKeys(runtime.database)
    with runtime.database.transaction() as tx:
        keys.settle(tx, [("f", "s", hash_of(b"a"))])
    with runtime.database.transaction() as tx:
        keys.send(tx, "f", "s", [b"a", b"b", b"b"])
        assert keys.free(tx, "f", "s") == {hash_of(b"b")}
        assert keys.free(tx, "f", "other") == frozenset()
    assert held(runtime.database) == {hash_of(b"b"): (2, 0)}


def test_the_same_hash_in_spark(embedded: World) -> None:
    keys = [b"", b"a", "schlüssel".encode(), bytes(range(256))]
    frame = embedded.spark.createDataFrame([(bytearray(key),) for key in keys], "key binary")
    assert [row[0] for row in frame.select(hash_column(frame.key)).collect()] == [hash_of(key) for key in keys]


@pytest.mark.parametrize(
    "point",
    [
        CrashPoint.BATCH_DECIDED,
        *(
            pytest.param(each, marks=pytest.mark.part("flows"))
            for each in (CrashPoint.DECISION_MADE, CrashPoint.ERRORS_SENT, CrashPoint.BATCH_COMMITTED)
        ),
    ],
)
def test_it_dies_and_goes_on(embedded: World, point: CrashPoint) -> None:
    flow = ordered("f", "in", embedded)
    send(embedded, "in", ("a", -1), ("a", 2), ("b", 3), partitions=1)
    crash.arm(Armed(point, once=embedded.home / "crashed", victim=0))
    try:
        with pytest.raises(Crashed):
            embedded.run(flow)
    finally:
        crash.arm(None)
    embedded.runtimes.pop().close()
    embedded.run_when_free(flow)
    assert loaded(embedded) == [3]
    assert failed(embedded, flow) == [("a", -1, "ValueError"), ("a", 2, KEY_HELD)]
    assert held(embedded.runtime.database) == {hash_of(b"a"): (2, 0)}


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
def test_it_needs_exactly_once(delivery: str) -> None:
    with pytest.raises(BadFlow, match=r"order='key' .*delivery='exactly-once'"):
        Flow("f", order="key", delivery=delivery)


def test_other_orders_are_unknown() -> None:
    with pytest.raises(BadFlow, match="order='time'"):
        Flow("f", order="time")  # type: ignore[arg-type]
