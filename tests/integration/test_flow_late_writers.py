"""Writers that come late: of a generation that a reset has ended; and marks that somebody has deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.support.flows import World
from tests.support.logs import shown
from tests.support.marked import numbered

from towpath import Flow, topic
from towpath.errors import FlowHalted, SinkError
from towpath.flow.delivery.ledger import BatchState
from towpath.flow.run import configuration as configuring
from towpath.flow.run.attempt import BatchAttempt
from towpath.flow.sinks.sink import WriterContext
from towpath.flow.sinks.topic.logs import kept_logs
from towpath.flow.sinks.topic.sink import TopicSink
from towpath.flow.stage import StageState
from towpath.flow.stage.states import StageCommandKind
from towpath.flow.stage.store import StageStore
from towpath.testing.clock import wait_until


@pytest.fixture(autouse=True)
def _no_kept_logs() -> Iterator[None]:
    yield
    kept_logs.close()


def copying(name: str) -> Flow:
    flow = Flow(name, delivery="exactly-once")
    flow.load(flow.source(topic(f"{name}-in")), topic(f"{name}-out", partitions=1), name="out")
    return flow


def numbers(world: World, name: str) -> list[int]:
    return sorted(json.loads(record.value or b"")["n"] for record in shown(world.runtime.log, f"{name}-out"))


def cut_off(world: World, flow: Flow, monkeypatch: pytest.MonkeyPatch) -> WriterContext:
    """Run it until its first batch is fixed and nothing is written: what a writer of that batch is told."""
    places: list[WriterContext] = []

    def halts(attempt: BatchAttempt) -> None:
        places.append(attempt.place.place("out", f"{flow.name}-in/0"))
        raise FlowHalted("cut off")

    with monkeypatch.context() as patch:
        patch.setattr(BatchAttempt, "outcome", halts)
        assert set(world.run(flow).values()) == {StageState.HALTED}
    return places[0]


def ask(world: World, flow: Flow, kind: StageCommandKind, stage: str | None = None, **arguments: str) -> None:
    database = world.runtime.database
    with database.transaction() as tx:
        StageStore(database).ask(tx, flow.name, stage or f"{flow.name}-in", kind, "me", "trying", arguments)


def halted_because(world: World, flow: Flow) -> str:
    database = world.runtime.database
    with database.read() as tx:
        return StageStore(database).read(tx, flow.name, f"{flow.name}-in").machine.reason


@pytest.mark.parametrize("is_fenced", [True, False], ids=["fenced", "broken twin"])
def test_a_late_writer_of_an_ended_generation_writes_nothing(
    world: World, name: str, is_fenced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One wakes up after the new generation has written, another had its transaction open when the reset came."""
    flow, sink = copying(name), TopicSink(f"{name}-out", partitions=1)
    world.send(f"{name}-in", [{"n": n} for n in range(4)], partitions=1)
    place = cut_off(world, flow, monkeypatch)
    stale = numbered([10], f"{name}-out")
    early = sink.writer(place)
    early.write(stale)
    if not is_fenced:
        monkeypatch.setattr(configuring, "fence_off", lambda ground: None)
    ask(world, flow, StageCommandKind.RESET, to="latest")
    assert set(world.run(flow).values()) == {StageState.STOPPED}
    if not is_fenced:
        early.finish()
        # A broker says that a transaction is committed a moment before readers see it.
        wait_until(lambda: numbers(world, name) == [10], 30, "what the reset has passed over is delivered")
        early.close()
        return
    with pytest.raises(SinkError):
        early.finish()
    early.close()
    world.send(f"{name}-in", [{"n": n} for n in range(4, 6)])
    world.run(flow)
    with pytest.raises(SinkError, match=r"generation 1 .*generation 2 "):
        sink.writer(place)
    world.send(f"{name}-in", [{"n": 6}])  # and whom it has fenced goes on
    world.run(flow)
    assert numbers(world, name) == [4, 5, 6]
    assert world.batches(flow)[0].state is BatchState.SUPERSEDED


@pytest.mark.part("flows")
def test_marks_that_were_deleted_are_missed(world: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With them it is gone what topics have of the open batch: the stage halts, and goes on as it then says."""
    flow, log = copying(name), world.runtime.log
    world.send(f"{name}-in", [{"n": n} for n in range(4)], partitions=1)
    with monkeypatch.context() as patch:
        patch.setattr("towpath.flow.run.batch.BatchRun._tell", halting)
        assert set(world.run(flow).values()) == {StageState.HALTED}
    wait_until(lambda: numbers(world, name) == [0, 1, 2, 3], what="a commit becomes visible")
    log.delete_topic(f"{name}.marks")
    wait_until(lambda: f"{name}.marks" not in {each.name for each in log.topics()}, 30)
    ask(world, flow, StageCommandKind.RESUME)
    assert set(world.run(flow).values()) == {StageState.HALTED}
    reason = halted_because(world, flow)
    assert f"{name}.marks" in reason
    assert f"towpath flow reset {name} --to latest" in reason
    assert numbers(world, name) == [0, 1, 2, 3]
    world.send(f"{name}-in", [{"n": 4}])
    ask(world, flow, StageCommandKind.RESET, to="latest")
    world.run(flow)
    world.send(f"{name}-in", [{"n": 5}])
    assert set(world.run(flow).values()) == {StageState.STOPPED}
    assert numbers(world, name) == [0, 1, 2, 3, 5]


def halting(*_: object, **__: object) -> None:
    raise FlowHalted("cut off")


CUTS = {
    "nothing is done": "towpath.flow.run.attempt.BatchAttempt._run",
    "topics have it": "towpath.flow.run.checkpoint.Checkpoint.keep_outcome",
    "its outcome is stored": "towpath.flow.run.batch.BatchRun._tell",
}


@pytest.mark.part("flows")
@pytest.mark.parametrize("cut", CUTS)
def test_a_topic_made_again_in_the_middle_of_a_batch(
    world: World, name: str, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is ended with what is left of it, once; what is gone is a gap; the new topic is read from its start."""
    log, old, other = world.runtime.log, f"{name}-in", f"{name}-other"
    flow = Flow(name, delivery="exactly-once")
    flow.load(flow.source(topic(old, other)), topic(f"{name}-out", partitions=1), name="out")
    world.send(old, [{"n": n} for n in range(4)], partitions=1)
    world.send(other, [{"n": 10}, {"n": 11}, b"no JSON"], partitions=1)
    with monkeypatch.context() as patch:
        patch.setattr(CUTS[cut], halting)
        assert set(world.run(flow).values()) == {StageState.HALTED}
    log.delete_topic(old)
    wait_until(lambda: old not in {each.name for each in log.topics()}, 30)
    world.send(old, [{"n": n} for n in range(20, 26)], partitions=1)
    world.send(other, [{"n": 12}])
    ask(world, flow, StageCommandKind.RESUME, stage=f"{old}+{other}")
    assert set(world.run(flow).values()) == {StageState.STOPPED}
    before = [] if cut == "nothing is done" else [0, 1, 2, 3]
    assert numbers(world, name) == [*before, 10, 11, 12, *range(20, 26)]
    errors = world.errors(flow)
    gaps = [(each.topic, each.offset, each.stop) for each in errors if each.kind == "gap"]
    assert gaps == ([] if cut == "its outcome is stored" else [(old, 0, 4)])
    assert [each.topic for each in errors if each.kind == "error"] == [other], "what failed is told once"
    assert {batch.state for batch in world.batches(flow)} == {BatchState.COMMITTED}
