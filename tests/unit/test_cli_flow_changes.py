"""`towpath flow pause`, `resume`, `stop`, `reset`: a wish, its event, and what came of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.cli import CommandLine

import towpath
from towpath.core.events import EventKind
from towpath.flow.stage import StageMachine, StageState
from towpath.flow.stage.states import StageCommand, StageCommandKind
from towpath.flow.stage.store import StageStore
from towpath.runtime import Runtime

FLOW, STAGE = "shop", "events"


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/towpath.db"
    monkeypatch.setenv("TOWPATH_DATABASE__URL", url)
    with towpath.connect(url, database={"synchronous": "normal"}) as runtime:
        with runtime.database.transaction() as tx:
            StageStore(runtime.database).ensure(tx, FLOW, STAGE, {})
        yield runtime


def save(runtime: Runtime, move: Callable[[StageMachine, int], StageMachine], *, leave: bool = False) -> None:
    """This process takes the stage and brings it into a state; it may leave it then."""
    stages, owner, now = StageStore(runtime.database), runtime.process().id, runtime.database.now()
    machine = move(StageMachine.new(now).started(now), now)
    with runtime.database.transaction() as tx:
        stages.take(tx, FLOW, STAGE, owner)
        stages.save_machine(tx, FLOW, STAGE, owner, machine)
        if leave:
            stages.release(tx, FLOW, STAGE, owner, machine)


def wish_of(runtime: Runtime) -> StageCommand | None:
    with runtime.database.read() as tx:
        return StageStore(runtime.database).read(tx, FLOW, STAGE).wish


@contextmanager
def granting(runtime: Runtime, move: Callable[[StageMachine, int], StageMachine]) -> Iterator[list[StageCommand]]:
    """As the thread of a stage does it: move, and settle the wish with that."""
    stages, owner, taken, over = StageStore(runtime.database), runtime.process().id, [], threading.Event()

    def listen() -> None:
        while not over.wait(0.05):
            with runtime.database.read() as tx:
                wish = stages.wish(tx, FLOW, STAGE, owner)
            if wish is not None:
                taken.append(wish)
                save(runtime, move)
                with runtime.database.transaction() as tx:
                    stages.settle_wish(tx, FLOW, STAGE, owner, wish)

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield taken
    finally:
        over.set()
        thread.join()


def test_a_running_stage_is_paused(runtime: Runtime, command: CommandLine) -> None:
    save(runtime, lambda machine, now: machine.moved(StageState.EXTRACT, now))
    with granting(runtime, lambda machine, now: machine.rested(StageState.PAUSED, "x", now)) as taken:
        ran = command.ok("flow", "pause", FLOW, "--why", "the shop is closed", "--who", "ann")
    assert "shop/events" in ran.out
    [wish] = taken
    assert (wish.kind, wish.who, wish.why) == (StageCommandKind.PAUSE, "ann", "the shop is closed")
    with runtime.database.read() as tx:
        [event] = runtime.event_log.page(tx, limit=5, kind=EventKind.FLOW_ASKED_BY_HAND)
    assert (event.subject, event.who, event.why, event.data) == (
        "shop/events",
        "ann",
        "the shop is closed",
        {"wish": "pause"},
    )


def test_a_stage_that_is_busy_is_not_waited_for_without_end(runtime: Runtime, command: CommandLine) -> None:
    save(runtime, lambda machine, now: machine.moved(StageState.EXTRACT, now))
    ran = command.ok("flow", "stop", FLOW, "--why", "x", "--wait", "0.2")
    assert "0.2 s" in ran.out


def test_for_programs(runtime: Runtime, command: CommandLine) -> None:
    save(runtime, lambda machine, now: machine.moved(StageState.EXTRACT, now))
    with granting(runtime, lambda machine, now: machine.rested(StageState.STOPPED, "x", now)):
        [item] = command.ok("flow", "stop", FLOW, STAGE, "--why", "x", "--json").json["items"]
    assert (item["is_done"], item["state"]) == (True, "stopped")


@pytest.mark.parametrize("rest", [StageState.PAUSED, StageState.HALTED])
def test_resume_of_a_stage_that_nobody_runs_waits_for_the_next_start(
    rest: StageState, runtime: Runtime, command: CommandLine
) -> None:
    save(runtime, lambda machine, now: machine.rested(rest, "x", now), leave=True)
    command.ok("flow", "resume", FLOW, "--why", "it is mended")
    wish = wish_of(runtime)
    assert wish is not None
    assert wish.kind is StageCommandKind.RESUME


def test_there_is_nothing_to_stop(runtime: Runtime, command: CommandLine) -> None:
    save(runtime, lambda machine, now: machine.rested(StageState.PAUSED, "x", now), leave=True)
    command("flow", "stop", FLOW, "--why", "x").refused(1, "shop/events")
    assert wish_of(runtime) is None  # or the next start would end at once


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["pause", FLOW, "--why", "x"], 1, "stopped"),
        (["resume", FLOW, "--why", "x"], 1, "`towpath run`"),
        (["reset", FLOW, "--why", "x"], 2, "--yes"),
        (["reset", FLOW, "--why", "x", "--to", "yesterday"], 2, "--to"),
        (["pause", FLOW], 2, "--why"),
    ],
)
def test_what_cannot_be_asked(words: list[str], code: int, said: str, runtime: Runtime, command: CommandLine) -> None:
    command("flow", *words).refused(code, said)
    assert wish_of(runtime) is None


def test_a_reset_says_where_to(runtime: Runtime, command: CommandLine) -> None:
    command.ok("flow", "reset", FLOW, "--to", "latest", "--yes", "--why", "too far behind")
    wish = wish_of(runtime)
    assert wish is not None
    assert wish.arguments == {"to": "latest"}
