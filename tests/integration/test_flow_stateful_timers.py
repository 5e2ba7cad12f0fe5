"""Alarms of keys: they ring without input, once, over restarts and crashes; one that fails waits for its replay."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.flows import World
from tests.support.logs import everything

from towpath import Flow, table, topic
from towpath.core import crash
from towpath.core.crash import Armed, CrashPoint
from towpath.errors import BadFlow
from towpath.flow.audit.audit import Audit
from towpath.flow.graph.stateful_nodes import Moment
from towpath.flow.records.reentry import reentry_record
from towpath.flow.run.timers import NEVER, StageTimer
from towpath.flow.stateful import field
from towpath.flow.stateful.keeper import WOKEN, tick_record
from towpath.flow.stateful.operators import SHARDS
from towpath.flow.topics import FlowTopics
from towpath.log import NewRecord
from towpath.testing.clock import wait_until

SOON_MS = 1


def closed(state: dict[str, Any], moment: Moment) -> Any:
    if state.get("fails"):
        raise ValueError("told to")
    assert moment.due_ms is not None
    assert moment.now_ms >= moment.due_ms
    cents = state.pop("cents")
    return [{"customer": moment.key.decode(), "cents": cents, "part": part} for part in range(state.pop("parts", 1))]


def sessions(home: Path, name: str = "sessions", behind: Any = None, **columns: str) -> Flow:
    """Sums that are told when nothing has come for a moment."""
    flow = Flow(name, delivery="exactly-once")

    @flow.stateful(
        topic(f"{name}-in"), key=field("customer"), schema="customer string, cents bigint not null", on_wake=closed
    )
    def session(payment: dict[str, Any], state: dict[str, Any], moment: Moment) -> None:
        state["cents"] = state.get("cents", 0) + payment["cents"]
        state.update(payment.get("set", {}))
        moment.wake_at(moment.now_ms + payment.get("in_ms", SOON_MS))

    last = session if behind is None else flow.each(session, deterministic=True, name="behind")(behind)
    flow.load(last, table("sessions", url=f"sqlite:///{home}/out.db", columns=columns), name="out")
    return flow


def send(world: World, flow: Flow, *payments: dict[str, Any]) -> None:
    log, name = world.runtime.log, f"{flow.name}-in"
    if name not in {each.name for each in log.topics()}:
        log.create_topic(name, 1)
    log.append(name, [NewRecord(json.dumps(each).encode()) for each in payments])


def paid(customer: str, cents: int, **more: Any) -> dict[str, Any]:
    return {"customer": customer, "cents": cents, **more}


def told(home: Path) -> list[tuple[str, int, int]]:
    with sqlite3.connect(home / "out.db") as connection:
        rows = [json.loads(text) for (text,) in connection.execute("select document from sessions")]
    return sorted((row["customer"], row["cents"], row["part"]) for row in rows)


def run_without_ticks(world: World, flow: Flow) -> None:
    """Run while for the driver no time passes: what is due soon is due in a later run, however slow this machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StageTimer, "_time", lambda self, operator: NEVER)
        world.run(flow)


def audited(world: World, flow: Flow) -> dict[str, int]:
    verdict = Audit(world.runtime.database, world.runtime.log, flow.name, deep=flow).run()
    assert verdict.problems == []
    assert verdict.balance.difference == 0
    return {str(place): count for place, count in verdict.balance.places.items() if count}


def ticks(world: World, flow: Flow) -> int:
    return len(everything(world.runtime.log, FlowTopics.of(flow.name).reentry))


def test_alarms_ring_without_input_once_and_over_restarts(world: World, name: str) -> None:
    flow = sessions(world.home, name)
    send(world, flow, paid("ann", 5), paid("bob", 1), paid("ann", 2, set={"parts": 2}), paid("cyd", 9, in_ms=900_000))
    run_without_ticks(world, flow)
    assert (world.counts(flow)["filtered"], ticks(world, flow)) == (4, 0)
    world.run(flow)  # nobody has sent anything
    expected = [("ann", 7, 0), ("ann", 7, 1), ("bob", 1, 0)]
    assert told(world.home) == expected
    log, topics = world.runtime.log, FlowTopics.of(flow.name)
    every = [tick_record(flow.stages()[0].name, 0, shard) for shard in range(SHARDS)]
    log.append(topics.reentry, [*every, tick_record("another", 0, 1), tick_record(flow.stages()[0].name, 7, 1)])
    world.run(flow)
    assert told(world.home) == expected, "a tick too many finds nothing due"
    assert world.errors(flow) == []
    counts = world.counts(flow)
    assert counts["read"] == 4 + ticks(world, flow)
    assert counts["loaded"] == 2
    assert audited(world, flow) == {"loaded": 2, "filtered": counts["read"] - 2}


@pytest.mark.part("flows")
@pytest.mark.parametrize("point", [CrashPoint.BATCH_LOADED, CrashPoint.BATCH_FIXED, CrashPoint.BATCH_COMMITTED])
def test_a_timer_batch_without_input_survives(point: CrashPoint, embedded: World) -> None:
    """The batch of ticks dies; nothing is in memory afterwards."""
    flow = sessions(embedded.home)
    send(embedded, flow, *(paid(f"c{n}", n, set={"parts": 2}) for n in range(5)))
    run_without_ticks(embedded, flow)
    once = embedded.home / f"crash-{uuid4().hex}"
    crash.arm(Armed(point, once=once, victim=0))
    try:
        with pytest.raises(crash.Crashed):
            embedded.run(flow)
    finally:
        crash.arm(None)
    assert once.exists()
    embedded.runtimes.pop().close()
    embedded.run_when_free(sessions(embedded.home))
    assert told(embedded.home) == [(f"c{n}", n, part) for n in range(5) for part in range(2)]
    assert audited(embedded, flow)["loaded"] == 5


@pytest.mark.part("flows")
def test_one_that_raises_is_told_and_its_replay_wakes_it_alone(embedded: World) -> None:
    flow = sessions(embedded.home)
    bad = [paid(name, 1, set={"fails": True}) for name in ("bad", "worse")]
    send(embedded, flow, paid("ann", 5), *bad, *(paid(f"c{n}", n) for n in range(20)))
    run_without_ticks(embedded, flow)
    embedded.run(flow)
    others = [("ann", 5, 0), *((f"c{n}", n, 0) for n in range(20))]
    assert told(embedded.home) == sorted(others)
    errors = {record.key for record in everything(embedded.runtime.log, flow.error_topic)}
    assert errors == {None}
    found = {dict(record.headers)[WOKEN]: record for record in everything(embedded.runtime.log, flow.error_topic)}
    assert {key: json.loads(record.value or b"")["key"] for key, record in found.items()} == {
        b"bad": "bad",
        b"worse": "worse",
    }
    assert {(each.failure.code, each.failure.step) for each in embedded.errors(flow)} == {(9, "session")}
    log, topics = embedded.runtime.log, FlowTopics.of(flow.name)
    # One is replayed as it was and fails again; the other is mended by a later record, which sets another alarm.
    log.append(topics.reentry, [reentry_record(found[b"bad"], "case-1", 1)])
    send(embedded, flow, paid("worse", 2, set={"fails": False}))
    embedded.run(flow)
    again = [one for one in embedded.errors(flow) if one.correlation == "case-1"]
    assert [one.attempt for one in again] == [1]
    log.append(topics.reentry, [reentry_record(found[b"worse"], "case-2", 1)])
    embedded.run(flow)
    assert told(embedded.home) == sorted([*others, ("worse", 3, 0)]), "its replay finds nothing that is parked"
    assert audited(embedded, flow)["failed"] == 3


def refuse_once(document: dict[str, Any]) -> dict[str, Any]:
    if document["cents"] == 13:
        raise ValueError("unlucky")
    return document


@pytest.mark.part("flows")
def test_what_fails_behind_the_step_comes_back_with_its_documents(embedded: World) -> None:
    flow = sessions(embedded.home, behind=refuse_once)
    send(embedded, flow, paid("ann", 13, set={"parts": 2}), paid("bob", 1))
    embedded.run(flow)
    wait_until(lambda: embedded.run(flow) and ticks(embedded, flow) >= 2, 60)
    assert told(embedded.home) == [("bob", 1, 0)]
    [error] = everything(embedded.runtime.log, flow.error_topic)
    assert len(json.loads(error.value or b"")["given"]) == 2
    mended = (error.value or b"").replace(b'"cents":13', b'"cents":14')
    embedded.runtime.log.append(FlowTopics.of(flow.name).reentry, [reentry_record(error, "case", 1, mended)])
    embedded.run(flow)
    assert told(embedded.home) == [("ann", 14, 0), ("ann", 14, 1), ("bob", 1, 0)]
    audited(embedded, flow)


def with_a_number(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "number": "none" if document["part"] == 1 else 1}


@pytest.mark.part("flows")
def test_a_tick_of_which_the_sink_refuses_one_document_comes_back_for_that_one(embedded: World) -> None:
    flow = sessions(embedded.home, behind=with_a_number, number="integer")
    send(embedded, flow, paid("ann", 13, set={"parts": 3}))
    embedded.run(flow)
    wait_until(lambda: embedded.run(flow) and ticks(embedded, flow) >= 1, 60)
    assert told(embedded.home) == [("ann", 13, 0), ("ann", 13, 2)]
    [error] = everything(embedded.runtime.log, flow.error_topic)
    assert json.loads(dict(error.headers)["towpath.delivered"] or b"") == [["out", "0,2"]]
    embedded.runtime.log.append(FlowTopics.of(flow.name).reentry, [reentry_record(error, "case", 1)])
    embedded.run(flow)
    assert told(embedded.home) == [("ann", 13, 0), ("ann", 13, 2)], "what is there stays, and once"
    assert len(everything(embedded.runtime.log, flow.error_topic)) == 2


def test_state_is_forgotten_without_input(embedded: World) -> None:
    flow = Flow("forgetting")

    @flow.stateful(topic("forgetting-in"), key=field("customer"), expire_s=1)
    def counted(payment: dict[str, Any], state: dict[str, Any]) -> None:
        state["seen"] = state.get("seen", 0) + 1

    flow.load(counted, table("sessions", url=f"sqlite:///{embedded.home}/out.db"), name="out")
    send(embedded, flow, *(paid(f"c{n}", n) for n in range(5)))
    run = embedded.open(flow)
    run.start()
    try:
        wait_until(lambda: embedded.counts(flow)["read"] > 5, 60)  # ticks have come, and found something to forget
        wait_until(lambda: not any(due for *_, due in dues(embedded)), 60)
    finally:
        run.stop()
        run.wait()
    assert embedded.counts(flow)["filtered"] == 5 + ticks(embedded, flow)


def dues(world: World) -> list[tuple[Any, ...]]:
    with sqlite3.connect(world.home / "towpath.db") as connection:
        rows = connection.execute("select operator, shard, due from flow_due").fetchall()
    return [(operator, shard, json.loads(due)) for operator, shard, due in rows]


def test_what_cannot_be_is_refused() -> None:
    flow = Flow("x")
    with pytest.raises(BadFlow, match="moment"):
        flow.stateful(topic("a"), key=field("c"), on_wake=lambda state: None)(lambda order, state, moment: order)
    with pytest.raises(BadFlow, match="asks"):
        flow.stateful(topic("a"), key=field("c"), on_wake=closed)(lambda order, state: order)
    with pytest.raises(TypeError, match="on_wake="):
        Moment(b"k", 1, "a", 0, 0, 0, can_wake=False).wake_in(1)
    with pytest.raises(TypeError, match="whole"):
        Moment(b"k", 1, "a", 0, 0, 0).wake_at(1.5)  # type: ignore[arg-type]
