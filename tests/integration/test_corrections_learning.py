"""Learning on Spark, on either log: from records that a flow has taken and not from those that have failed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.desk import table as rows_of
from tests.support.flows import World

from towpath import Flow, table, topic
from towpath.desk.corrections.knowledge import KnowledgeCache
from towpath.desk.corrections.learner import Learner
from towpath.desk.corrections.model import RuleKind
from towpath.desk.corrections.proposer import Correction, correction
from towpath.errors import UnknownFlow

CITIES = {"10115": "Berlin", "80331": "München", "20095": "Hamburg", "01067": "Dresden"}


def orders(count: int, start: int = 0) -> list[dict[str, Any]]:
    places = list(CITIES.items())
    return [
        {
            "id": start + at,
            "postcode": places[at % 4][0],
            "city": places[at % 4][1],
            "day": f"2026-01-{at // 4 % 28 + 1:02d}",
        }
        for at in range(count)
    ]


def shop(world: World, name: str) -> Flow:
    flow = Flow(name)

    @flow.each(
        flow.source(topic(f"{name}-orders"), schema="id bigint, postcode string, city string not null, day string")
    )
    def checked(order: dict[str, Any]) -> dict[str, Any]:
        if order["city"] == "Nowhere":
            raise ValueError("there is no such city")
        return order

    flow.load(checked, table("orders", id="{id}", url=f"sqlite:///{world.home}/out.db"))
    return flow


def learning(world: World) -> Learner:
    runtime = world.runtime
    parts = (runtime.database, runtime.events, runtime.event_log)
    return Learner(*parts, lambda: runtime.log, lambda: world.spark)


def evidence(world: World) -> dict[tuple[str, ...], int]:
    return {
        (row["field"], row["aspect"], row["given"], row["value"]): row["taken"]
        for row in rows_of(world.runtime.database, "desk_evidence")
    }


def test_learning_goes_on_where_it_ended(world: World, name: str) -> None:
    """Nothing is counted twice, nothing is left out, and what has failed is no evidence."""
    world.send(f"{name}-orders", [*orders(200), *({**each, "city": "Nowhere"} for each in orders(40, 1000))])
    world.send(f"{name}-orders", [{"id": 1, "postcode": "10115", "day": f"{day}/03/2026"} for day in range(13, 19)])
    world.run(shop(world, name))
    learner = learning(world)
    first = learner.learn(name)
    assert {(rule.kind, rule.field, rule.deciders) for rule in first.rules} >= {
        (RuleKind.DECIDED, "city", ("postcode",)),
        (RuleKind.DATE, "day", ("city", "postcode")),
    }
    found = evidence(world)
    assert found["", "records", "", ""] == 200
    assert {name[2:]: count for name, count in found.items() if name[:2] == ("city", "decided")} == {
        (f'["{postcode}"]', f'"{city}"'): 50 for postcode, city in CITIES.items()
    }
    assert found["day", "order", "", "x/4:dmy"] == 6  # from those that have failed
    again = learner.learn(name)
    assert (again.offsets, again.rules) == (0, ())
    assert evidence(world) == found
    world.send(f"{name}-orders", orders(100, 5000))
    world.run(shop(world, name))
    assert learner.learn(name).offsets >= 100
    assert evidence(world)["", "records", "", ""] == 300


def test_ranges_are_cut_until_their_counts_fit(embedded: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite is not held for longer than it may be, however much there is to count."""
    embedded.send(f"{name}-orders", orders(120))
    embedded.run(shop(embedded, name))
    learner = learning(embedded)
    monkeypatch.setattr("towpath.desk.corrections.learner.MOST_COUNTS", 60)
    found = learner.learn(name)
    assert found.offsets >= 120
    assert evidence(embedded)["", "records", "", ""] == 120
    monkeypatch.setattr("towpath.desk.corrections.learner.MOST_EVIDENCE", 1)
    embedded.send(f"{name}-orders", orders(10, 900))
    embedded.run(shop(embedded, name))
    assert learner.learn(name).is_full


def test_what_was_learned_mends_a_record(embedded: World, name: str) -> None:
    embedded.send(f"{name}-orders", orders(200))
    embedded.run(shop(embedded, name))
    learner = learning(embedded)
    learner.learn(name)
    runtime = embedded.runtime
    for rule in runtime.corrections.rules(name):
        runtime.corrections.turn_on(rule.id, who="ada", why="it is right")
    known = KnowledgeCache(runtime.database).of(name)
    done = correction(known, b'{"id":7,"postcode":"80331","day":"2026-01-05"}', "field city: expected string not null")
    assert isinstance(done, Correction)
    assert done.value == '{"id":7,"postcode":"80331","day":"2026-01-05","city":"München"}'.encode()


def test_a_flow_that_nobody_knows(embedded: World) -> None:
    with pytest.raises(UnknownFlow):
        learning(embedded).learn("nobody")
