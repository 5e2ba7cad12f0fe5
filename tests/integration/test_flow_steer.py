"""Steering a stage: what people ask of it is done in the end, and what it passes over is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from tests.support.flows import World

from towpath import Flow, table, topic
from towpath.errors import BadFlow
from towpath.flow.audit.audit import Audit
from towpath.flow.delivery.ledger import Ledger
from towpath.flow.run.flow_run import FlowRun
from towpath.flow.stage import StageMachine, StageState
from towpath.flow.stage.states import StageCommand, StageCommandKind
from towpath.flow.stage.store import StageRow, StageStore
from towpath.testing.clock import wait_until


class Died(BaseException):
    """As if the process had ended here: nobody handles it."""


def copying(name: str, home: Path, *topics: str) -> Flow:
    flow = Flow(name)
    flow.load(topic(*topics), table("out", url=f"sqlite:///{home}/out.db"), name="out")
    return flow


def stage_of(world: World, flow: str, stage: str) -> StageRow:
    database = world.runtime.database
    with database.read() as tx:
        return StageStore(database).read(tx, flow, stage)


def ask(world: World, stage: str, kind: StageCommandKind, **arguments: Any) -> StageCommand:
    database = world.runtime.database
    with database.transaction() as tx:
        stages = StageStore(database)
        stages.ask(tx, "f", stage, kind, "ada", "trying", arguments)
        wish = stages.read(tx, "f", stage).wish  # before anybody can grant it
    assert wish is not None
    return wish


def started(world: World, flow: Flow, state: StageState) -> FlowRun:
    run = world.open(flow)
    run.start()
    wait_until(lambda: run.views()[0].machine.state is state, 60)
    return run


def gaps(world: World, flow: Flow) -> list[tuple[str, int, int, int | None]]:
    found = [each for each in world.errors(flow) if each.kind == "gap"]
    return [(each.topic, each.offset, each.stop or 0, each.batch_id) for each in found]


def problems(world: World, flow: Flow) -> list[str]:
    return [str(each) for each in Audit(world.runtime.database, world.runtime.log, flow.name).run().problems]


def test_what_a_reset_by_code_5_skips_is_told(world: World, name: str) -> None:
    """One topic is made again; what has expired of the other meanwhile is passed over by the same reset."""
    again, other, log = f"{name}-again", f"{name}-other", world.runtime.log
    flow = copying(name, world.home, again, other)
    for each in (again, other):
        world.send(each, [{"n": 1}], partitions=1)
    world.run(flow)
    log.delete_topic(again)
    wait_until(lambda: again not in {each.name for each in log.topics()}, 30)
    world.send(again, [{"n": 2}], partitions=1)
    world.send(other, [{"n": n} for n in range(5)])
    log.delete_before(other, {0: 4})
    world.run(flow)
    assert gaps(world, flow) == [(other, 1, 4, None)]
    [gap] = world.errors(flow)
    assert (gap.generation, gap.hash) == (1, "")
    assert world.counts(flow)["loaded"] == 2 + 3
    assert problems(world, flow) == []
    reached = {(topic, number): end for topic in (again, other) for number, end in log.ends(topic).items()}
    group = f"towpath.{name}.{again}+{other}"
    wait_until(lambda: {spot: log.positions(group).get(spot) for spot in reached} == reached, 30)


def test_a_reset_that_is_cut_off_is_done_again_and_its_gap_is_told(
    embedded: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The process dies with the gap told and neither generation nor row written."""
    flow = copying("f", embedded.home, "clicks")
    embedded.send("clicks", [{"n": 1}] * 3, partitions=1)
    embedded.run(flow)
    embedded.send("clicks", [{"n": 2}] * 4)
    ask(embedded, "clicks", StageCommandKind.RESET, to="latest")
    with monkeypatch.context() as patch:
        patch.setattr(StageStore, "new_generation", dies)
        run = embedded.open(flow)
        run.start()
        with pytest.raises(Died):
            run.wait()
    assert stage_of(embedded, "f", "clicks").wish is not None
    assert rows_of_gaps(embedded) == []
    embedded.run(flow)
    assert stage_of(embedded, "f", "clicks").wish is None
    assert stage_of(embedded, "f", "clicks").generation == 2
    assert rows_of_gaps(embedded) == [("clicks", 3, 7)]
    assert gaps(embedded, flow) == [("clicks", 3, 7, None)] * 2, "at least once"
    assert problems(embedded, flow) == []

    ask(embedded, "clicks", StageCommandKind.RESET, to="earliest")
    log = embedded.runtime.log
    with monkeypatch.context() as patch:
        patch.setattr(log, "commit_positions", fails)
        assert embedded.run(flow) == {"clicks": StageState.STOPPED}, "what is only told does not stop a stage"
    assert "away" in caplog.text
    assert embedded.counts(flow)["loaded"] == 3 + 7
    generations = embedded.home / "flows" / "f" / "clicks"
    assert sorted(path.name for path in generations.iterdir()) == ["2", "3"], "the one before is kept, older are not"
    assert log.positions("towpath.f.clicks") == {("clicks", 0): 7, **at_start(embedded, "f.reentry")}
    embedded.run(flow)
    assert problems(embedded, flow) == []


def at_start(world: World, topic: str) -> dict[tuple[str, int], int]:
    return {(topic, number): start for number, start in world.runtime.log.starts(topic).items()}


def fails(*_: Any, **__: Any) -> Any:
    raise RuntimeError("away")


def rows_of_gaps(world: World) -> list[tuple[str, int, int]]:
    database = world.runtime.database
    with database.read() as tx:
        return [(gap.topic, gap.start, gap.stop) for gap in Ledger(database).gaps(tx, "f")]


def dies(*_: Any, **__: Any) -> Any:
    raise Died


def dying_when(state: StageState) -> Callable[..., None]:
    save = StageStore.save_machine

    def save_machine(self: StageStore, tx: Any, flow: str, stage: str, owner: str, machine: StageMachine) -> None:
        save(self, tx, flow, stage, owner, machine)
        if machine.state is state:
            raise Died

    return save_machine


def test_what_was_asked_is_done_by_the_next_process_if_the_first_dies(
    embedded: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each wish is cut off just before the transaction commits that does it."""
    flow = copying("f", embedded.home, "clicks")
    embedded.send("clicks", [{"n": 1}])
    steps = [
        (StageState.EXTRACT, StageCommandKind.PAUSE, StageState.PAUSED),
        (StageState.PAUSED, StageCommandKind.RESUME, StageState.CONFIGURE),
        (StageState.EXTRACT, StageCommandKind.STOP, StageState.STOPPED),
    ]
    for before, kind, target in steps:
        run = started(embedded, flow, before)
        with monkeypatch.context() as patch:
            patch.setattr(StageStore, "save_machine", dying_when(target))
            wish = ask(embedded, "clicks", kind)
            with pytest.raises(Died):
                run.wait()
        assert stage_of(embedded, "f", "clicks").wish == wish, f"{kind} is lost"
        assert stage_of(embedded, "f", "clicks").machine.state is not target
        run = embedded.open(flow)
        run.start()
        wait_until(lambda: stage_of(embedded, "f", "clicks").wish is None, 60)
        if kind is StageCommandKind.PAUSE:
            assert stage_of(embedded, "f", "clicks").machine.state is StageState.PAUSED
            run.stop("the machine is shut down")
            assert run.wait() == {"clicks": StageState.PAUSED}, "a restart is no decision of a person"
        elif kind is StageCommandKind.RESUME:
            wait_until(lambda: run.views()[0].machine.state is StageState.EXTRACT, 60)  # noqa: B023 - used at once
            run.stop()
            assert run.wait() == {"clicks": StageState.STOPPED}
        else:
            assert run.wait() == {"clicks": StageState.STOPPED}
            assert stage_of(embedded, "f", "clicks").machine.reason == "ada: trying"


@pytest.mark.part("flows")
def test_a_search_ends_when_the_stage_is_to_stop(embedded: World) -> None:
    """Every record fails, and every try takes a while: to the end the search would take a minute."""
    tries = []
    flow = Flow("f")

    @flow.step(topic("clicks"), schema="at string")
    def parsed(clicks: Any) -> Any:
        tries.append(time.monotonic())
        time.sleep(0.5)
        return clicks.withColumn("at", F.col("at").cast("bigint"))

    flow.load(parsed, table("out", url=f"sqlite:///{embedded.home}/out.db"), name="out")
    embedded.send("clicks", [{"at": "soon"}] * 64, partitions=1)
    run = embedded.open(flow)
    run.start(until_idle=True)
    wait_until(lambda: len(tries) > 4, 60)  # one to check the plan, one for the batch, the others search
    run.stop()
    stage = run._running[0].run
    wait_until(lambda: stage._begins_none or not run.is_running, 60, "the stage has heard of it")
    made = len(tries)
    assert run.wait() == {"clicks": StageState.STOPPED}
    assert len(tries) <= made + 1  # one may have been about to begin
    assert [batch.state for batch in embedded.batches(flow)] == ["snapshot"]
    assert embedded.errors(flow) == []


def test_a_halted_stage_is_resumed_while_the_others_run(embedded: World) -> None:
    marker = embedded.home / "mended"
    flow = Flow("f")

    @flow.step(topic("b"), schema="n int")
    def checked(rows: Any) -> Any:
        if not marker.exists():
            raise BadFlow("it is broken")
        return rows

    flow.load(topic("a"), table("a", url=f"sqlite:///{embedded.home}/out.db"), name="a")
    flow.load(checked, table("b", url=f"sqlite:///{embedded.home}/out.db"), name="b")
    for each in ("a", "b"):
        embedded.send(each, [{"n": 1}])

    def states() -> dict[str, StageState]:
        return {view.stage: view.machine.state for view in run.views()}

    assert embedded.run(flow) == {"a": StageState.STOPPED, "b": StageState.HALTED}, "until idle: nobody waits for b"
    run = embedded.open(flow)
    run.start()
    wait_until(lambda: states()["a"] is StageState.EXTRACT, 60)
    assert states()["b"] is StageState.HALTED
    marker.touch()
    ask(embedded, "b", StageCommandKind.RESUME)
    wait_until(lambda: embedded.counts(flow)["loaded"] == 2, 60)
    embedded.send("a", [{"n": 2}])
    wait_until(lambda: embedded.counts(flow)["loaded"] == 3, 60)
    assert stage_of(embedded, "f", "b").wish is None
    run.stop()
    assert run.wait() == {"a": StageState.STOPPED, "b": StageState.STOPPED}


@pytest.mark.part("flows")
def test_a_batch_that_fails_three_times_without_a_known_cause_is_searched(embedded: World) -> None:
    """As long as any record at all makes it fail, none is at fault; when only one does, it is set aside."""
    marker = embedded.home / "down"
    marker.touch()
    flow = Flow("f")

    @flow.step(topic("clicks"), schema="n int")
    def checked(clicks: Any) -> Any:
        if clicks.where("n >= 0" if marker.exists() else "n = 13").count():
            raise RuntimeError("a cause that nobody knows")
        return clicks

    flow.load(checked, table("out", url=f"sqlite:///{embedded.home}/out.db"), name="out")
    embedded.connect(search_records=2)
    embedded.send("clicks", [{"n": n} for n in range(10, 15)], partitions=1)
    run = embedded.open(flow)
    run.start(until_idle=True)
    wait_until(lambda: run.views()[0].machine.uncategorised > 4, 180)  # each time the whole stage begins anew
    assert embedded.errors(flow) == []
    marker.unlink()
    assert run.wait() == {"clicks": StageState.STOPPED}
    [error] = embedded.errors(flow)
    assert (error.failure.code, error.failure.exception, error.offset) == (9, "RuntimeError", 3)
    assert embedded.counts(flow)["loaded"] == 4
