"""Code and hands that do the worst: an instance may fail by it, and no other is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.actors import Ask, Asker, Count, Counter, Do, Doer, Theatre
from tests.support.cli import CommandLine
from tests.support.quiet import Quiet, shift
from tests.support.scripted import InThisThread

from towpath.actors import Turn
from towpath.actors.instance import Phase
from towpath.actors.turn import ActorStart
from towpath.cli.output import plain
from towpath.core import crash
from towpath.core.crash import Armed, Crashed, CrashPoint
from towpath.testing.clock import wait_until

TIMEOUT_S = 50.0


class Unsayable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raising(error: BaseException) -> Any:
    def act(turn: Any) -> None:
        raise error

    return act


def others_run(theatre: Theatre) -> bool:
    run = theatre.actors.start(Counter, Count(2), instance="innocent", wants_answer=True)
    return bool(theatre.actors.outbox().wait(run, timeout_s=30).payload == 2)


@pytest.mark.parametrize("text", ["boom \x00", "boom \ud800", "boom " * 1_000_000, "boom \U0001f4a5" * 200_000])
def test_reasons_that_cannot_be_stored_as_they_are(theatre: Theatre, text: str) -> None:
    Doer.actions["raise"] = raising(RuntimeError(text))
    run = theatre.actors.start(Doer, Do("raise"), wants_answer=True)
    answer = theatre.actors.outbox().wait(run, timeout_s=30)
    assert not answer.is_ok
    assert answer.payload["error"].startswith("Do: RuntimeError: boom")
    rest = theatre.rest_of("doer")
    assert (rest.phase, (rest.reason or "")[:22]) == (Phase.FAILED, "Do: RuntimeError: boom")
    assert others_run(theatre)


def test_exceptions_that_cannot_be_shown(theatre: Theatre) -> None:
    """More than there are threads: none of them is lost."""
    Doer.actions["raise"] = raising(Unsayable())
    names = [f"i{n}" for n in range(40)]
    for name in names:
        theatre.actors.start(Doer, Do("raise"), instance=name)
    wait_until(lambda: {theatre.actors.instance("doer", name).phase for name in names} == {Phase.FAILED}, 60)
    assert "Unsayable" in (theatre.actors.instance("doer", "i7").reason or "")
    assert others_run(theatre)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_is_done_with_the_commit_ends_no_host(theatre: Theatre, error: BaseException) -> None:
    def act(turn: Turn) -> Do:
        turn.in_commit(raising(error))
        return Do("never")

    Doer.actions["act"] = act
    theatre.actors.start(Doer, Do("act"))
    rest = theatre.rest_of("doer")
    assert rest.phase is Phase.FAILED
    assert type(error).__name__ in (rest.reason or "")
    assert others_run(theatre)


@pytest.mark.parametrize("header", [None, 5, ["Nothing"], [1, {}]])
def test_the_header_of_a_waiting_one_is_edited(theatre: Theatre, header: Any) -> None:
    theatre.runtime.queue.inbox("deaf")
    theatre.actors.start(Asker, Ask("deaf", 0.5))
    theatre.actors.start(Asker, Ask("deaf", 3600.0), instance="other")
    wait_until(lambda: theatre.actors.instance("asker", "other").phase is Phase.WAITING)
    head = theatre.actors.instance("asker", "other").head
    theatre.runtime.queue.operator("ann").edit(head, "to see", headers={"towpath.otherwise": header})
    theatre.runtime.database.shift_clock(3601)
    rest = theatre.rest_of("asker", "other")
    assert rest.phase is Phase.FAILED
    assert theatre.rest_of("asker").phase is Phase.ENDED
    assert others_run(theatre)


def test_a_wait_in_vain_is_in_vain_also_when_its_process_dies_then(make_quiet: Any, tmp_path: Path) -> None:
    """The death comes after the claim by its time, before any of its code: nobody must take that for answers."""
    first = make_quiet()
    first.runtime.queue.inbox("deaf")
    host = hosted(first)
    run = first.runtime.actors.start(Asker, Ask("deaf", TIMEOUT_S), wants_answer=True)
    rounds(host)
    assert first.runtime.actors.instance("asker").phase is Phase.WAITING
    shift(TIMEOUT_S + 1, first)
    crash.arm(Armed(CrashPoint.ACTORS_CLAIM_AFTER_COMMIT, once=tmp_path / "once", victim=0))
    try:
        with pytest.raises(Crashed):
            rounds(host)
    finally:
        crash.arm(None)
    first.process.stop()
    second = make_quiet()
    rounds(hosted(second))
    assert second.runtime.actors.outbox().wait(run, timeout_s=30).payload == "nothing"
    history = [(each.function, each.state, each.reason) for each in second.runtime.actors.history("asker")][::-1]
    assert history[2:] == [("Heard", "OK", "timed out"), ("Nothing", "OK", None), ("End", "OK", None)]


def hosted(quiet: Quiet) -> Any:
    quiet.runtime.actors.register(Asker)
    host = quiet.runtime.actors.host()
    host._workers = InThisThread(host._run)  # type: ignore[assignment]
    return host


def rounds(host: Any) -> None:
    while True:
        host._upkeep_at = host._strays_at = float("-inf")
        if host.run_once().done == 0 and not host._done:
            return


def test_what_is_printed_of_it(command: CommandLine, theatre: Theatre, variables: dict[str, str]) -> None:
    assert plain("boom \ud800\udfff") == "boom \\ud800\\udfff"
    Doer.actions["raise"] = raising(RuntimeError("boom \ud800"))
    theatre.actors.start_by_hand(ActorStart("doer", "main", "Do", {"what": "raise"}), "ann", "to see")
    theatre.rest_of("doer")
    assert "boom \\ud800" in command.ok("actor", "show", "doer").out
