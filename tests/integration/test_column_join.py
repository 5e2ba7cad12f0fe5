"""Every order with every payment of the same id that is near in time: on Spark, over batches, with a watermark."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.flows import World

from towpath import Flow, table, topic
from towpath.flow.audit.audit import Audit
from towpath.flow.delivery.ledger import BatchSnapshot
from towpath.flow.delivery.places import RecordPlace
from towpath.flow.records.reentry import reentry_record
from towpath.flow.stateful import field
from towpath.flow.topics import FlowTopics
from towpath.log import NewRecord

HOUR = 3_600_000
Pair = tuple[str | None, str | None]


def bought(home: Path, name: str = "bought", **more: Any) -> Flow:
    flow = Flow(name, delivery="exactly-once")
    limits = {"on": field("id"), "time": field("at"), "within_s": 3600, "late_s": 600, **more}
    joined = flow.join_on(order=topic(f"{name}-orders"), payment=topic(f"{name}-payments"), name="both", **limits)
    checked = flow.each(joined, deterministic=True, name="checked")(refusing)
    flow.load(checked, table("bought", url=f"sqlite:///{home}/out.db"), name="out")
    return flow


def refusing(document: dict[str, Any]) -> dict[str, Any]:
    if any(side and side.get("bad") for side in document.values()):
        raise ValueError("told to")
    return document


def send(world: World, flow: Flow, orders: list[Any] = [], payments: list[Any] = []) -> None:  # noqa: B006
    log = world.runtime.log
    for name, documents in ((f"{flow.name}-orders", orders), (f"{flow.name}-payments", payments)):
        if name not in {each.name for each in log.topics()}:
            log.create_topic(name, 2)
        if documents:
            log.append(name, [NewRecord(json.dumps(each).encode(), each["n"].encode()) for each in documents])


def one(n: str, id: Any, at: Any, **more: Any) -> dict[str, Any]:
    return {"n": n, "id": id, "at": at, **more}


def loaded(home: Path) -> Counter[Pair]:
    with sqlite3.connect(home / "out.db") as connection:
        documents = [json.loads(text) for (text,) in connection.execute("select document from bought")]
    return Counter(((each["order"] or {}).get("n"), (each["payment"] or {}).get("n")) for each in documents)


def balance(world: World, flow: Flow) -> dict[str, int]:
    verdict = Audit(world.runtime.database, world.runtime.log, flow.name, deep=flow).run()
    assert verdict.problems == []
    assert verdict.balance.difference == 0
    return {str(place): count for place, count in verdict.balance.places.items() if count}


def watermarks(world: World, flow: Flow) -> list[int | None]:
    """As the rows of the batches have it."""
    return [BatchSnapshot.of_value(batch.units).watermarks.get("both") for batch in world.batches(flow)]


def test_over_batches_until_what_is_unmatched_lies_in_the_error_topic(world: World, name: str) -> None:
    flow = bought(world.home, name)
    send(world, flow, [one("a", 1, 0), one("b", 2, 0), one("c", "1", 0)], [one("x", 1.0, HOUR), one("y", 1, HOUR + 1)])
    world.run(flow)
    assert loaded(world.home) == {("a", "x"): 1}
    assert balance(world, flow) == {RecordPlace.LOADED: 1, RecordPlace.AGGREGATED: 1, RecordPlace.JOINING: 3}
    assert watermarks(world, flow) == [None]
    # The next batch has a watermark: of the orders, which are furthest behind. Nothing is late for it.
    send(world, flow, [one("d", 1, HOUR)], [one("z", 2, 1)])
    world.run(flow)
    assert loaded(world.home) == {("a", "x"): 1, ("d", "x"): 1, ("d", "y"): 1, ("b", "z"): 1}
    assert balance(world, flow) == {RecordPlace.LOADED: 3, RecordPlace.AGGREGATED: 3, RecordPlace.JOINING: 1}
    # Both inputs go on: what is late fails, and what has waited is found by ticks, in whatever shard it is.
    send(world, flow, [one("e", 3, 9 * HOUR)], [one("w", 3, 9 * HOUR)])
    world.run(flow)
    send(world, flow, [one("late", 3, 8 * HOUR)])
    world.run(flow)
    errors = {(error.failure.exception, error.topic, error.failure.code) for error in world.errors(flow)}
    assert errors == {("Late", f"{name}-orders", 8), ("Unmatched", f"{name}-orders", 8)}
    assert balance(world, flow)[RecordPlace.FAILED] == 2
    assert balance(world, flow).get(RecordPlace.JOINING, 0) == 0
    marks = [mark for mark in watermarks(world, flow) if mark is not None]
    assert marks == sorted(marks)
    assert marks[-1] == 9 * HOUR - 600_000


@pytest.mark.part("flows")
def test_one_that_fails_behind_the_join_comes_back_with_its_partners(embedded: World) -> None:
    """What was mended is in these. What the join keeps of the record is as it came, also for later partners."""
    flow = bought(embedded.home)
    send(embedded, flow, [one("a", 1, 0), one("b", 1, 0), one("c", 2, 0)])
    embedded.run(flow)
    send(embedded, flow, payments=[one("x", 1, 0, bad=True)])
    embedded.run(flow)
    assert loaded(embedded.home) == {}
    log, topics = embedded.runtime.log, FlowTopics.of(flow.name)
    [error] = [record for number in log.ends(topics.errors) for record in log.read(topics.errors, number, 0)]
    assert [each["n"] for each in json.loads(error.value or b"")["order"]] == ["a", "b"]
    mended = (error.value or b"").replace(b"true", b"false")
    log.append(topics.reentry, [reentry_record(error, "case-1", 1, mended)])
    send(embedded, flow, [one("d", 1, 0)])
    embedded.run(flow)
    assert loaded(embedded.home) == {("a", "x"): 1, ("b", "x"): 1}
    counts = embedded.counts(flow)
    assert (counts["joining"], counts["aggregated"], counts["failed"], counts["loaded"]) == (1, 2, 2, 1)


@pytest.mark.part("flows")
def test_without_partner_delivered_by_a_tick(embedded: World) -> None:
    flow = bought(embedded.home, unmatched={"order": "deliver", "payment": "drop"})
    send(embedded, flow, [one(f"o{n}", n, 0) for n in range(40)], [one(f"p{n}", n + 38, 0) for n in range(40)])
    send(embedded, flow, [one("end", "end", 9 * HOUR)], [one("end", "end", 9 * HOUR)])
    embedded.run(flow)
    expected = {(f"o{n}", None): 1 for n in range(38)} | {("o38", "p0"): 1, ("o39", "p1"): 1, ("end", "end"): 1}
    assert loaded(embedded.home) == expected
    found = balance(embedded, flow)
    assert (found.get(RecordPlace.JOINING, 0), found[RecordPlace.UNMATCHED], found[RecordPlace.AGGREGATED]) == (
        0,
        38,
        38 + 3,
    )
