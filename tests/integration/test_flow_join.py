"""The k-th record of two topics together: over the whole topics, for each key, over batches, with one that fails."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.flows import World
from tests.support.logs import everything

from towpath import Flow, table, topic
from towpath.errors import BadFlow
from towpath.flow.audit.audit import Audit
from towpath.flow.delivery.places import RecordPlace
from towpath.flow.records.reentry import reentry_record
from towpath.flow.stateful import Dedupe, field, key
from towpath.flow.topics import FlowTopics
from towpath.log import NewRecord
from towpath.testing.clock import wait_until


def bought(home: Path, name: str = "bought", **joining: Any) -> Flow:
    flow = Flow(name)
    joined = flow.join(order=topic(f"{name}-orders"), payment=topic(f"{name}-payments"), **joining)
    flow.load(joined, table("bought", url=f"sqlite:///{home}/out.db"), name="out")
    return flow


def send(world: World, flow: Flow, topic: str, *values: object, key: bytes | None = None) -> None:
    log = world.runtime.log
    for name in (f"{flow.name}-orders", f"{flow.name}-payments"):
        if name not in {each.name for each in log.topics()}:
            log.create_topic(name, 1)
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    log.append(f"{flow.name}-{topic}", [NewRecord(text, key) for text in texts])


def loaded(home: Path) -> list[str]:
    with sqlite3.connect(home / "out.db") as connection:
        return sorted(text for (text,) in connection.execute("select document from bought"))


def balance(world: World, flow: Flow) -> dict[str, int]:
    verdict = Audit(world.runtime.database, world.runtime.log, flow.name, deep=flow).run()
    assert verdict.problems == []
    assert verdict.balance.difference == 0
    return {str(place): count for place, count in verdict.balance.places.items() if count}


def test_by_position_over_batches(world: World, name: str) -> None:
    """What waits is joining; texts are joined as they are, with their white space and their numbers."""
    flow = bought(world.home, name)
    send(world, flow, "orders", b'{"n": 1.50}', b'{"n":2}', b'{"n":3}')
    send(world, flow, "payments", b'{"p": 1}')
    world.run(flow)
    assert [json.loads(text) for text in loaded(world.home)] == [{"order": {"n": 1.5}, "payment": {"p": 1}}]
    assert "1.50" in loaded(world.home)[0]
    assert balance(world, flow) == {RecordPlace.LOADED: 1, RecordPlace.AGGREGATED: 1, RecordPlace.JOINING: 2}
    send(world, flow, "payments", b'{"p": 2}', b'{"p": 3}', b'{"p": 4}')
    world.run(flow)
    assert [(one["order"]["n"], one["payment"]["p"]) for one in map(json.loads, loaded(world.home))] == [
        (1.5, 1),
        (2, 2),
        (3, 3),
    ]
    assert balance(world, flow) == {RecordPlace.LOADED: 3, RecordPlace.AGGREGATED: 3, RecordPlace.JOINING: 1}
    assert world.counts(flow) == Counter(read=7, loaded=3, delivered=3, aggregated=3, joining=1)


@pytest.mark.part("flows")
def test_by_key_with_one_that_fails_and_comes_back(embedded: World) -> None:
    """A record that cannot be read keeps its place; others are joined meanwhile, and its replay fills it."""
    flow = bought(embedded.home, key=key())
    send(embedded, flow, "orders", {"n": 1}, b"{", {"n": 3}, key=b"ann")
    send(embedded, flow, "orders", {"n": 7}, key=b"bob")
    send(embedded, flow, "payments", {"p": 1}, {"p": 2}, {"p": 3}, key=b"ann")
    embedded.run(flow)
    pairs = [(one["order"]["n"], one["payment"]["p"]) for one in map(json.loads, loaded(embedded.home))]
    assert pairs == [(1, 1), (3, 3)]
    assert balance(embedded, flow) == {
        RecordPlace.LOADED: 2,
        RecordPlace.AGGREGATED: 2,
        RecordPlace.JOINING: 2,
        RecordPlace.FAILED: 1,
    }
    log, topics = embedded.runtime.log, FlowTopics.of(flow.name)
    [error] = [record for number in log.ends(topics.errors) for record in log.read(topics.errors, number, 0)]
    log.append(topics.reentry, [reentry_record(error, "case-1", 1, b'{"n": 2}')])
    embedded.run(flow)
    pairs = [(one["order"]["n"], one["payment"]["p"]) for one in map(json.loads, loaded(embedded.home))]
    assert pairs == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.part("flows")
def test_duplicates_are_dropped_before_what_has_waited_long_enough_leaves(embedded: World) -> None:
    """Orders are sent twice; one of them never gets its payment, and is delivered without."""
    flow = Flow("bought", delivery="exactly-once")
    orders = topic("bought-orders", dedupe=Dedupe(key(), field("n")))
    joined = flow.join(order=orders, payment=topic("bought-payments"), key=field("n"), wait_s=0.3, unmatched="deliver")
    flow.load(joined, table("bought", url=f"sqlite:///{embedded.home}/out.db"), name="out")
    send(embedded, flow, "orders", *[{"n": 1}, {"n": 1}, {"n": 2}, {"n": 2}], key=b"ann")
    send(embedded, flow, "payments", {"n": 1, "p": 1})
    embedded.run(flow)
    wait_until(lambda: embedded.run(flow) and len(loaded(embedded.home)) == 2, 60)
    assert [json.loads(text) for text in loaded(embedded.home)] == [
        {"order": {"n": 1}, "payment": {"n": 1, "p": 1}},
        {"order": {"n": 2}, "payment": None},
    ]
    found = balance(embedded, flow)
    assert found.pop(RecordPlace.FILTERED, 0) >= 0, "ticks too many, if any"
    assert found == {RecordPlace.LOADED: 2, RecordPlace.AGGREGATED: 2, RecordPlace.DUPLICATE: 2}


@pytest.mark.part("flows")
def test_or_goes_to_the_error_topic_from_where_it_can_come_back(embedded: World) -> None:
    flow = bought(embedded.home, key=field("n"), wait_s=0.3, unmatched="error", schema="order struct<n: int>")
    send(embedded, flow, "orders", {"n": 1}, {"x": 2})
    embedded.run(flow)
    log, topics = embedded.runtime.log, FlowTopics.of(flow.name)
    wait_until(lambda: embedded.run(flow) and len(everything(log, topics.errors)) == 2, 60)
    assert sorted(each.failure.exception for each in embedded.errors(flow)) == ["NoKey", "NoPartner"]
    found = balance(embedded, flow)
    assert (found[RecordPlace.FAILED], found[RecordPlace.UNMATCHED], found.get(RecordPlace.JOINING)) == (2, 1, None)
    back = {json.loads(one.value or b"").get("x"): one for one in everything(log, topics.errors)}
    mended = (back[None].value or b"").replace(b"null", b'{"p": 1}')
    log.append(topics.reentry, [reentry_record(back[None], "a", 1, mended)])
    log.append(topics.reentry, [reentry_record(back[2], "b", 1, b'{"n": 2}')])
    send(embedded, flow, "payments", {"n": 2})
    embedded.run(flow)
    assert [json.loads(text) for text in loaded(embedded.home)] == [
        {"order": {"n": 1}, "payment": {"p": 1}},
        {"order": {"n": 2}, "payment": {"n": 2}},
    ]
    assert balance(embedded, flow)[RecordPlace.LOADED] == 2


def test_what_cannot_be_is_refused() -> None:
    flow = Flow("x")
    with pytest.raises(BadFlow, match="two"):
        flow.join(order=topic("orders"))
    with pytest.raises(BadFlow, match="one topic"):
        flow.join(order=topic("orders", "more"), payment=topic("payments"))
    with pytest.raises(BadFlow, match="once"):
        flow.join(order=topic("orders"), payment=topic("orders"))
    with pytest.raises(BadFlow, match="both"):
        flow.join(order=topic("orders"), payment=topic("payments"), wait_s=1)
