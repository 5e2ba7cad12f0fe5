"""Rehearsal on Spark: what would become of the cases of a group, and nothing is written meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.desk import desk_tables, intake_of, rows, take_all
from tests.support.flows import World

from towpath import Flow, table, topic
from towpath.desk.cases.model import CaseSelection
from towpath.desk.rehearsal import Rehearsal, RehearsalVerdict, Rehearsed
from towpath.errors import CannotRehearse
from towpath.flow.run.rehearsal import rehearsed_stage
from towpath.flow.stateful import Dedupe, header, key

WATCHED = ("flow_batch", "flow_stage", "flow_gap", "event")


def shop(home: Path, name: str, price: Callable[[dict[str, Any]], dict[str, Any] | None], **said: Any) -> Flow:
    flow = Flow(name)

    @flow.step(topic(f"{name}-orders"), schema="n int, city string")
    def known(orders: Any) -> Any:
        return orders.where("n < 1000")

    made = flow.each(known, name="priced", **said)(price)
    flow.load(made, table("orders", id="{n}", url=f"sqlite:///{home}/out.db"))
    return flow


def broken(order: dict[str, Any]) -> dict[str, Any]:
    raise KeyError(f"no price for order {order['n']}")


def mended(order: dict[str, Any]) -> dict[str, Any] | None:
    """Some load, one is filtered, some fail as before, one fails otherwise, one ends its worker."""
    match order["n"] % 10:
        case 7:
            return None
        case 8:
            raise KeyError(f"no price for order {order['n']}")
        case 9:
            raise ValueError("too dear")
    if order["n"] == 23:
        os._exit(1)
    return {**order, "price": 1}


def rehearsal(world: World) -> Rehearsal:
    runtime = world.runtime
    return Rehearsal(runtime.settings, runtime.database, runtime.events, lambda: world.spark, lambda name: b"")


def everything(world: World, name: str) -> dict[str, Any]:
    """All rows of the desk and of flows, all ends and positions of the log, and what is in the sink."""
    runtime = world.runtime
    topics = sorted(each.name for each in runtime.log.topics())
    return {
        **desk_tables(runtime.database),
        **{each: rows(runtime.database, f"select * from {each}") for each in WATCHED},
        "ends": {each: runtime.log.ends(each) for each in topics if each.startswith(name)},
        "groups": {each: runtime.log.positions(each) for each in runtime.log.groups() if name in each},
        "sink": sorted((world.home / "out.db").read_bytes().splitlines()) if (world.home / "out.db").exists() else None,
        "files": sorted(str(path) for path in (world.home / "flows").rglob("*") if "rehearsal" in path.name),
    }


def failed(world: World, name: str, count: int) -> int:
    """Orders that have all failed for one cause, taken in; returns the number of their group."""
    world.send(f"{name}-orders", [{"n": at, "city": "Ulm"} for at in range(count)])
    world.run(shop(world.home, name, broken))
    take_all(intake_of(world.runtime))
    [(group,)] = rows(world.runtime.database, "select id from desk_group")
    return int(group)


def counts(found: Rehearsed) -> dict[RehearsalVerdict, int]:
    return {verdict: count for verdict, count in found.counts.items() if count}


def test_what_would_become_of_a_group(world: World, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    group = failed(world, name, 30)
    before = everything(world, name)
    same = rehearsal(world).rehearse(group, shop(world.home, name, broken))
    assert counts(same) == {RehearsalVerdict.SAME: 30}
    assert same.passing == []
    found = rehearsal(world).rehearse(group, shop(world.home, name, mended))
    # Those that end in 7, 8 and 9; and number 23, which is found though it ends its worker.
    assert counts(found) == {
        RehearsalVerdict.LOADS: 20,
        RehearsalVerdict.FILTERED: 3,
        RehearsalVerdict.SAME: 3,
        RehearsalVerdict.OTHERWISE: 4,
    }
    assert everything(world, name) == before
    assert {example.said for example in found.examples[RehearsalVerdict.FILTERED]} == {"by priced"}
    assert any("too dear" in example.said for example in found.examples[RehearsalVerdict.OTHERWISE])
    ids = rehearsal(world).unchanged(found)
    assert len(ids) == 23
    done = world.runtime.desk.operate.replay(ids[:5], who="ada", why="they would load").done
    assert len(done) == 5
    assert rehearsal(world).unchanged(found) == ids[5:]
    assert world.runtime.desk.cases.count(CaseSelection(group=group)) == 30


def test_steps_with_effects_are_refused_or_passed_over(
    embedded: World, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    group = failed(embedded, name, 3)
    seen = tmp_path / "seen"

    def paid(order: dict[str, Any]) -> dict[str, Any]:
        seen.touch()
        return order

    flow = shop(embedded.home, name, paid, effects=True)
    with pytest.raises(CannotRehearse, match="priced"):
        rehearsal(embedded).rehearse(group, flow)
    found = rehearsal(embedded).rehearse(group, flow, passes_effects=True)
    assert counts(found) == {RehearsalVerdict.LOADS: 3}
    assert not seen.exists()
    assert len(rehearsal(embedded).rehearse(group, flow, passes_effects=True, most=2).passing) == 2


def test_flows_that_cannot_be_rehearsed(name: str, tmp_path: Path) -> None:
    flow = shop(tmp_path, name, mended)
    with pytest.raises(CannotRehearse, match="elsewhere"):
        rehearsed_stage(flow, flow.stages()[0].name, "elsewhere")
    keeps = Flow(f"{name}-kept")
    once = keeps.source(topic("a", dedupe=Dedupe(key(), header("n"))))
    keeps.load(once, table("t", url=f"sqlite:///{tmp_path}/t.db"))
    with pytest.raises(CannotRehearse, match="state"):
        rehearsed_stage(keeps, keeps.stages()[0].name, "a")
