"""What block rules keep out of a flow: counted once, proven by the audit, and never on the desk unless refused."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.flows import World
from tests.support.numbered import Sent, loaded, orders, send

from towpath import Flow, table, topic
from towpath.blocks.rule import BlockAction, BlockMatch
from towpath.flow.audit.audit import Audit
from towpath.flow.audit.trace import Tracer
from towpath.flow.delivery.places import RecordPlace

UNTIL = "2100-01-01"


def priced(home: Path) -> Flow:
    flow = Flow("priced")

    @flow.each(topic("orders"))
    def price(order: dict[str, Any]) -> dict[str, Any]:
        return {**order, "price": 2 * order["n"]}

    flow.load(price, table("orders", url=f"sqlite:///{home}/out.db"))
    return flow


def block(world: World, action: BlockAction, **match: str) -> int:
    blocks = world.runtime.blocks
    return blocks.add(action, BlockMatch.of(**match), until=UNTIL, who="ann", why="noise").rule.number


def caught(world: World) -> dict[int, int]:
    return {each.rule.number: each.caught for each in world.runtime.blocks.list()}


def balance(world: World, flow: Flow) -> dict[str, int]:
    verdict = Audit(world.runtime.database, world.runtime.log, flow.name, deep=flow).run()
    assert verdict.problems == []
    assert verdict.balance.difference == 0
    return {str(place): count for place, count in verdict.balance.places.items() if count}


def test_rules_are_fixed_with_a_batch(embedded: World) -> None:
    """The first rule that fits decides; a rule that is withdrawn counts no more for what comes then."""
    flow = priced(embedded.home)
    ignoring = block(embedded, BlockAction.IGNORE, topic="orders", key="3")
    refusing = block(embedded, BlockAction.REFUSE, where="value.n >= 3 and value.n < 6")
    block(embedded, BlockAction.IGNORE, topic="another", where="value.n is not null")
    block(embedded, BlockAction.IGNORE, stream="orders")  # a record in a topic is of no stream
    embedded.send("orders", [{"n": n} for n in range(10)], partitions=1)
    embedded.run(flow)

    assert numbers(embedded.home) == [0, 1, 2, 6, 7, 8, 9]
    assert embedded.counts(flow) == Counter(read=10, loaded=7, delivered=7, failed=2, blocked=1, caught=3)
    assert balance(embedded, flow) == {RecordPlace.LOADED: 7, RecordPlace.FAILED: 2, RecordPlace.BLOCKED: 1}
    told = [(one.offset, one.failure.code, one.failure.exception, one.failure.message) for one in embedded.errors(flow)]
    assert sorted(told) == [(at, 8, "Blocked", f"block rule {refusing}: noise") for at in (4, 5)]
    assert caught(embedded) == {4: 0, 3: 0, refusing: 2, ignoring: 1}
    [traced] = Tracer(embedded.runtime.database, embedded.runtime.log, flow.name).trace("orders", 0, 3)
    assert (traced.place, traced.now) == (RecordPlace.BLOCKED, f"blocked: block rule {ignoring}: noise")

    for number in (ignoring, refusing):
        embedded.runtime.blocks.withdraw(number, who="ann", why="over")
    embedded.send("orders", [{"n": n} for n in range(10)])
    embedded.run(flow)
    assert len(numbers(embedded.home)) == 17
    assert caught(embedded) == {4: 0, 3: 0, refusing: 2, ignoring: 1}
    assert balance(embedded, flow) == {RecordPlace.LOADED: 17, RecordPlace.FAILED: 2, RecordPlace.BLOCKED: 1}


@pytest.mark.part("flows")
def test_what_is_kept_out_is_not_remembered(embedded: World) -> None:
    """Before operators with state: a number that was kept out is taken when it is sent again later."""
    flow = orders(embedded.home)
    ignoring = block(embedded, BlockAction.IGNORE, where="value.name = 'a2'")
    refusing = block(embedded, BlockAction.REFUSE, where="value.name = 'b1'")
    send(embedded, [Sent("a", 1, "a1"), Sent("a", 2, "a2"), Sent("b", 1, "b1"), Sent("a", 1, "again")])
    embedded.run(flow)
    assert loaded(embedded.home) == ["a1"]
    assert embedded.counts(flow) == Counter(read=4, loaded=1, delivered=1, duplicate=1, failed=1, blocked=1, caught=2)
    [error] = embedded.errors(flow)
    assert (error.failure.exception, error.failure.step) == ("Blocked", "orders")

    embedded.runtime.blocks.withdraw(ignoring, who="ann", why="over")
    send(embedded, [Sent("a", 2, "a2"), Sent("a", 2, "again")])
    embedded.run(flow)
    assert loaded(embedded.home) == ["a1", "a2"]
    assert caught(embedded) == {refusing: 1, ignoring: 1}
    assert balance(embedded, flow) == {
        RecordPlace.LOADED: 2,
        RecordPlace.DUPLICATE: 2,
        RecordPlace.FAILED: 1,
        RecordPlace.BLOCKED: 1,
    }


def numbers(home: Path) -> list[int]:
    with sqlite3.connect(home / "out.db") as connection:
        return sorted(json.loads(text)["n"] for (text,) in connection.execute("select document from orders"))
