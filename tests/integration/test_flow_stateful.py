"""A function that remembers: its state goes from batch to batch, and only what succeeds changes it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.flows import World

from towpath import Flow, table, topic
from towpath.errors import BadFlow
from towpath.flow.graph.stateful_nodes import Moment
from towpath.flow.stage import StageMachine, StageState
from towpath.flow.stage.states import StageCommandKind
from towpath.flow.stage.store import StageStore
from towpath.flow.stateful import Dedupe, field
from towpath.log import NewRecord

WORDS = {"skip": 0, "twice": 2}


def totals(home: Path, dedupe: Dedupe | None = None, name: str = "totals") -> Flow:
    """A running sum for each customer; some give nothing, some two, one raises after it has changed the state."""
    flow = Flow(name)

    @flow.stateful(
        topic(f"{name}-orders", dedupe=dedupe), key=field("customer"), schema="customer string, cents bigint"
    )
    def summed(order: dict[str, Any], state: dict[str, Any], moment: Moment) -> Any:
        state["cents"] = state.get("cents", 0) + order["cents"]
        if order["cents"] == 13:
            raise ValueError("unlucky")
        assert moment.key == order["customer"].encode()
        assert moment.now_ms > 1_700_000_000_000
        return [{**order, "total": state["cents"]}] * WORDS.get(order.get("word", ""), 1)

    @flow.each(summed)
    def shown(order: dict[str, Any]) -> dict[str, Any]:
        return {**order, "shown": f"{order['customer']}:{order['total']}"}

    flow.load(shown, table("totals", url=f"sqlite:///{home}/out.db"), name="out")
    return flow


def send(world: World, flow: Flow, *orders: object) -> None:
    log, topic = world.runtime.log, f"{flow.name}-orders"
    if topic not in {each.name for each in log.topics()}:
        log.create_topic(topic, 1)
    texts = [order if isinstance(order, bytes) else json.dumps(order).encode() for order in orders]
    log.append(topic, [NewRecord(text) for text in texts])


def shown(home: Path) -> list[str]:
    with sqlite3.connect(home / "out.db") as connection:
        return sorted(json.loads(text)["shown"] for (text,) in connection.execute("select document from totals"))


def order(customer: str, cents: Any, **more: Any) -> dict[str, Any]:
    return {"customer": customer, "cents": cents, **more}


def test_state_goes_on_and_only_success_changes_it(world: World, name: str) -> None:
    flow = totals(world.home, name=name)
    send(
        world,
        flow,
        order("ann", 5),
        order("bob", 1),
        order("ann", 13),  # raises, after it has changed the state
        order("ann", 2, word="twice"),
        order("bob", 4, word="skip"),
        order("ann", "much"),  # does not fit: the function is not called
        {"cents": 1},  # has no key
        b"{",
    )
    world.run(flow)
    assert shown(world.home) == ["ann:5", "ann:7", "ann:7", "bob:1"]
    failures = {each.offset: (each.failure.code, each.failure.step) for each in world.errors(flow)}
    assert failures == {2: (9, "summed"), 5: (8, "summed"), 6: (9, "summed"), 7: (7, "summed")}
    counts = world.counts(flow)
    assert counts == Counter(read=8, loaded=3, delivered=4, filtered=1, failed=4)
    assert [batch.counts["filtered"] for batch in world.batches(flow)] == [{"summed": 1}]
    send(world, flow, order("bob", 10), order("ann", 1))
    world.run(flow)
    assert shown(world.home) == ["ann:5", "ann:7", "ann:7", "ann:8", "bob:1", "bob:15"]


@pytest.mark.part("flows")
def test_behind_dropped_duplicates(embedded: World) -> None:
    """What is dropped never comes to the function."""
    flow = totals(embedded.home, Dedupe(sender=field("customer"), sequence=field("n")))
    send(embedded, flow, order("ann", 5, n=1), order("ann", 5, n=1), order("ann", 6, n=2))
    embedded.run(flow)
    send(embedded, flow, order("ann", 6, n=2), order("ann", 7, n=3))
    embedded.run(flow)
    assert shown(embedded.home) == ["ann:11", "ann:18", "ann:5"]
    assert embedded.counts(flow) == Counter(read=5, loaded=3, delivered=3, duplicate=2)


@pytest.mark.part("flows")
def test_a_worker_that_dies_in_it_halts_the_stage(embedded: World) -> None:
    """Nobody can search there: the state is of the batch before. It is not tried for ever, and says where it was."""
    flow = Flow("deadly")

    @flow.stateful(topic("deadly-orders"), key=field("customer"))
    def counted(order: dict[str, Any], state: dict[str, Any]) -> None:
        if order["cents"] == 13:
            os._exit(1)

    flow.load(counted, table("totals", url=f"sqlite:///{embedded.home}/out.db"), name="out")
    send(embedded, flow, order("ann", 5), order("ann", 13))
    assert embedded.run(flow) == {"deadly-orders": StageState.HALTED}
    reason = pilot_of(embedded, flow).reason
    assert "deadly-orders/0 at offset 1" in reason
    assert "towpath flow resume deadly deadly-orders" in reason


@pytest.mark.part("flows")
def test_a_topic_made_again_needs_a_person(embedded: World) -> None:
    """What is kept belongs to the old one."""
    flow = totals(embedded.home)
    send(embedded, flow, order("ann", 5))
    embedded.run(flow)
    embedded.runtime.log.delete_topic("totals-orders")
    send(embedded, flow, order("ann", 2))
    assert embedded.run(flow) == {"totals-orders": StageState.HALTED}
    reason = pilot_of(embedded, flow).reason
    assert "towpath flow reset totals totals-orders" in reason
    assert shown(embedded.home) == ["ann:5"]
    database = embedded.runtime.database
    with database.transaction() as tx:
        StageStore(database).ask(
            tx, flow.name, "totals-orders", StageCommandKind.RESET, "me", "anew", {"to": "earliest"}
        )
    embedded.run(flow)
    assert shown(embedded.home) == ["ann:2", "ann:5"], "it has begun anew"


def pilot_of(world: World, flow: Flow) -> StageMachine:
    database = world.runtime.database
    with database.read() as tx:
        [stage] = StageStore(database).list(tx, flow.name)
    return stage.machine


def test_what_cannot_be_is_refused() -> None:
    flow = Flow("x")
    with pytest.raises(BadFlow, match="key"):
        flow.stateful(topic("a"), key="customer")(lambda order, state: order)  # type: ignore[arg-type]
    with pytest.raises(BadFlow, match="expire_s"):
        flow.stateful(topic("a"), key=field("c"), expire_s=0)(lambda order, state: order)
    with pytest.raises(BadFlow, match="document"):
        flow.stateful(topic("a"), key=field("c"))(lambda order: order)
    made = flow.stateful(topic("a"), key=field("c"), name="made")(lambda order, state: order)
    with pytest.raises(BadFlow, match="each"):
        flow.step(made)(lambda rows: rows)


def test_steps_with_state_have_their_workers_from_the_one_daemon(embedded: World) -> None:
    """A second one would load everything once more, and its workers could do nothing for the other steps."""
    flow = Flow("parents")

    @flow.stateful(topic("parents-orders"), key=field("customer"))
    def kept(order: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
        return {**order, "of_state": os.getppid()}

    @flow.each(kept)
    def shown(order: dict[str, Any]) -> dict[str, Any]:
        return {"shown": [order["of_state"], os.getppid()]}

    flow.load(shown, table("totals", url=f"sqlite:///{embedded.home}/out.db"), name="out")
    send(embedded, flow, order("ann", 5))
    embedded.run(flow)
    with sqlite3.connect(embedded.home / "out.db") as connection:
        [document] = connection.execute("select document from totals").fetchone()
    of_state, of_step = json.loads(document)["shown"]
    assert of_state == of_step
