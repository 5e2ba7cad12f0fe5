"""`towpath flow pause`, `resume`, `stop`, `reset`: a wish, its event, and what came of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.cli import CommandLine

import towpath
from towpath.events import EventKind
from towpath.flow.pilot import Pilot, PilotState
from towpath.flow.stage_store import StageStore
from towpath.flow.wish import Wish, WishKind
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


def save(runtime: Runtime, move: Callable[[Pilot, int], Pilot], *, leave: bool = False) -> None:
    """This process takes the stage and brings it into a state; it may leave it then."""
    stages, owner, now = StageStore(runtime.database), runtime.process().id, runtime.database.now()
    pilot = move(Pilot.new(now).started(now), now)
    with runtime.database.transaction() as tx:
        stages.take(tx, FLOW, STAGE, owner)
        stages.save_pilot(tx, FLOW, STAGE, owner, pilot)
        if leave:
            stages.release(tx, FLOW, STAGE, owner, pilot)


def wish_of(runtime: Runtime) -> Wish | None:
    with runtime.database.read() as tx:
        return StageStore(runtime.database).read(tx, FLOW, STAGE).wish


@contextmanager
def granting(runtime: Runtime, move: Callable[[Pilot, int], Pilot]) -> Iterator[list[Wish]]:
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
    save(runtime, lambda pilot, now: pilot.moved(PilotState.EXTRACT, now))
    with granting(runtime, lambda pilot, now: pilot.paused("x", now)) as taken:
        ran = command.ok("flow", "pause", FLOW, "--why", "the shop is closed", "--who", "ann")
    assert "shop/events" in ran.out
    [wish] = taken
    assert (wish.kind, wish.who, wish.why) == (WishKind.PAUSE, "ann", "the shop is closed")
    with runtime.database.read() as tx:
        [event] = runtime.event_log.page(tx, limit=5, kind=EventKind.FLOW_ASKED_BY_HAND)
    assert (event.subject, event.who, event.why, event.data) == (
        "shop/events",
        "ann",
        "the shop is closed",
        {"wish": "pause"},
    )


def test_a_stage_that_is_busy_is_not_waited_for_without_end(runtime: Runtime, command: CommandLine) -> None:
    save(runtime, lambda pilot, now: pilot.moved(PilotState.EXTRACT, now))
    ran = command.ok("flow", "stop", FLOW, "--why", "x", "--wait", "0.2")
    assert "0.2 s" in ran.out


def test_for_programs(runtime: Runtime, command: CommandLine) -> None:
    save(runtime, lambda pilot, now: pilot.moved(PilotState.EXTRACT, now))
    with granting(runtime, lambda pilot, now: pilot.stopped("x", now)):
        [item] = command.ok("flow", "stop", FLOW, STAGE, "--why", "x", "--json").json["items"]
    assert (item["is_done"], item["state"]) == (True, "stopped")


@pytest.mark.parametrize("rest", [Pilot.paused, Pilot.halted])
def test_resume_of_a_stage_that_nobody_runs_waits_for_the_next_start(
    rest: Callable[[Pilot, str, int], Pilot], runtime: Runtime, command: CommandLine
) -> None:
    save(runtime, lambda pilot, now: rest(pilot, "x", now), leave=True)
    command.ok("flow", "resume", FLOW, "--why", "it is mended")
    wish = wish_of(runtime)
    assert wish is not None
    assert wish.kind is WishKind.RESUME


def test_there_is_nothing_to_stop(runtime: Runtime, command: CommandLine) -> None:
    save(runtime, lambda pilot, now: pilot.paused("x", now), leave=True)
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
