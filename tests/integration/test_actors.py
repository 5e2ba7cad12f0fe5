"""Actors on both databases: runs from their start to their end."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from tests.support.actors import (
    Count,
    Counter,
    Do,
    Doer,
    Gate,
    Nap,
    Sleeper,
    Theatre,
)
from tests.support.sweep import sweep

from towpath.actors import End, Sleep, Turn
from towpath.actors.instance import Phase
from towpath.db import Transaction
from towpath.errors import BadName, BadState
from towpath.queue.payload import new_id
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until


def test_a_run_from_start_to_end(theatre: Theatre) -> None:
    run = theatre.actors.start(Counter, Count(3), wants_answer=True)
    answer = theatre.actors.outbox().wait(run, timeout_s=30)
    assert answer.is_ok
    assert answer.payload == 3
    assert theatre.rest_of("counter").phase is Phase.ENDED
    assert theatre.history("counter") == [("Count", "OK")] * 5 + [("End", "OK")]
    messages = theatre.messages("counter")
    assert [each.related_id for each in messages] == [None, *(each.id for each in messages[:-1])]
    assert [each.payload.get("n") for each in messages[:-1]] == [0, 0, 1, 2, 3]


def test_it_can_be_started_again(theatre: Theatre) -> None:
    for upto in (1, 2):
        theatre.actors.outbox().wait(theatre.actors.start(Counter, Count(upto), wants_answer=True), timeout_s=30)
    assert [each.payload for each in theatre.messages("counter") if each.function == "End"] == [
        {"result": 1},
        {"result": 2},
    ]


def test_many_instances_at_once(theatre: Theatre) -> None:
    outbox = theatre.actors.outbox()
    runs = [theatre.actors.start(Counter, Count(n), instance=f"c{n}", wants_answer=True) for n in range(40)]
    assert [outbox.wait(run, timeout_s=60).payload for run in runs] == list(range(40))


def test_a_start_while_it_runs_is_refused(theatre: Theatre) -> None:
    theatre.actors.start(Sleeper, Nap(60))
    wait_until(lambda: theatre.actors.instance("sleeper").phase is Phase.SLEEPING)
    answer = theatre.actors.outbox().wait(theatre.actors.start(Sleeper, Nap(1), wants_answer=True), timeout_s=30)
    assert not answer.is_ok
    assert "sleeping in Awake" in answer.payload["error"]
    assert theatre.actors.instance("sleeper").phase is Phase.SLEEPING


def test_two_starts_at_once(theatre: Theatre) -> None:
    gate = Gate()
    Doer.actions["wait"] = gate
    outbox = theatre.actors.outbox()
    first, second = (theatre.actors.start(Doer, Do("wait"), wants_answer=True) for _ in range(2))
    refused = outbox.wait(second, timeout_s=30)
    gate.go_on.set()
    assert outbox.wait(first, timeout_s=30).payload == "late"
    assert "runs already" in refused.payload["error"]


def test_code_that_raises(theatre: Theatre) -> None:
    def explode(turn: Turn) -> None:
        raise ValueError("no such page")

    Doer.actions["explode"] = explode
    answer = theatre.actors.outbox().wait(theatre.actors.start(Doer, Do("explode"), wants_answer=True), timeout_s=30)
    assert answer.payload == {"error": "Do: ValueError: no such page"}
    assert theatre.history("doer") == [("Do", "ERR"), ("Do", "ERR"), ("Failed", "OK")]
    assert Doer.cleaned == ["Do: ValueError: no such page"]
    trace = theatre.messages("doer")[1].reason or ""
    assert "in explode" in trace
    assert trace.endswith("ValueError: no such page")
    assert theatre.rest_of("doer").reason == "Do: ValueError: no such page"


@sweep(
    ("returned", "reason"),
    [
        (None, "it returned nothing"),
        (End, "returned the class End; return one of its objects"),
        ("next", "'next' is no state of doer; its states: Do, End, Failed"),
        (Count(3), "is no state of doer"),
        (End(object()), "End cannot be written as JSON"),
        (End("x" * 2_000_000), "the state End has 2,000,"),
        (Sleep(Sleep(End(), seconds=1), seconds=1), "Sleep inside of another"),
    ],
)
def test_code_that_returns_something_else(theatre: Theatre, returned: object, reason: str) -> None:
    Doer.actions["return"] = lambda turn: returned
    instance = new_id()
    theatre.actors.start(Doer, Do("return"), instance=instance)
    rest = theatre.rest_of("doer", instance)
    assert rest.phase is Phase.FAILED
    assert reason in (rest.reason or "")


def test_what_a_failed_state_sent_is_not_sent(theatre: Theatre) -> None:
    theatre.runtime.queue.inbox("work")

    def send_and_fail(turn: Turn) -> None:
        turn.notice("work", "DO", 1)
        raise RuntimeError("after all")

    Doer.actions["send"] = send_and_fail
    theatre.actors.start(Doer, Do("send"))
    assert theatre.rest_of("doer").phase is Phase.FAILED
    assert theatre.runtime.queue.inbox("work").eavesdrop(5) == []


def test_an_effect_that_cannot_be_written_fails_its_own_run_only(theatre: Theatre) -> None:
    gates = [Gate(), Gate()]

    def explode(tx: Transaction) -> None:
        raise ZeroDivisionError

    def bad(turn: Turn) -> End:
        gates[0](turn)
        turn.in_commit(explode)
        return End("bad")

    Doer.actions.update(bad=bad, good=gates[1])
    theatre.actors.start(Doer, Do("bad"), instance="bad")
    theatre.actors.start(Doer, Do("good"), instance="good")
    for gate in gates:
        assert gate.begun.wait(30)
    for gate in gates:
        gate.go_on.set()
    assert theatre.rest_of("doer", "good").phase is Phase.ENDED
    rest = theatre.rest_of("doer", "bad")
    assert rest.phase is Phase.FAILED
    assert "ZeroDivisionError" in (rest.reason or "")


def test_a_clean_up_that_fails(theatre: Theatre) -> None:
    class Once:
        def __call__(self, turn: Turn) -> End:
            return End()

    Doer.actions["end"] = Once()
    Doer.cleaned = None  # type: ignore[assignment]
    try:
        theatre.actors.start(Doer, Do("end"))
        rest = theatre.rest_of("doer")
    finally:
        Doer.cleaned = []
    assert rest.phase is Phase.FAILED
    assert "AttributeError" in (rest.reason or "")
    assert theatre.history("doer")[-1] == ("End", "ERR")


def test_a_disabled_actor_rests(theatre: Theatre) -> None:
    theatre.actors.start(Sleeper, Nap(3600), instance="one")
    wait_until(lambda: theatre.actors.instance("sleeper", "one").phase is Phase.SLEEPING)
    theatre.actors.enable("sleeper", False, who="ann", why="holidays")
    wait_until(lambda: "sleeper" in theatre.host._disabled)
    refused = theatre.actors.outbox().wait(
        theatre.actors.start(Sleeper, Nap(0), instance="two", wants_answer=True), timeout_s=30
    )
    assert "disabled" in refused.payload["error"]
    theatre.runtime.database.shift_clock(3601)
    theatre.actors.start(Counter, Count(1))
    theatre.rest_of("counter")
    assert theatre.actors.instance("sleeper", "one").phase is Phase.SLEEPING
    theatre.actors.enable("sleeper", True, who="ann", why="back")
    assert theatre.rest_of("sleeper", "one").phase is Phase.ENDED


def test_one_instance_is_never_in_two(theatre: Theatre, make_runtime: object) -> None:
    other = Theatre(make_runtime())  # type: ignore[operator]
    other.host.start()
    try:
        runs = [theatre.actors.start(Counter, Count(20), instance=f"c{n}", wants_answer=True) for n in range(20)]
        outbox = theatre.actors.outbox()
        assert [outbox.wait(run, timeout_s=60).payload for run in runs] == [20] * 20
    finally:
        other.host.stop()
    for n in range(20):
        assert theatre.history("counter", f"c{n}") == [("Count", "OK")] * 22 + [("End", "OK")]


def test_a_start_that_cannot_be_sent(runtime: Runtime) -> None:
    with pytest.raises(BadState):
        runtime.actors.start(Counter, Do("x"))
    with pytest.raises(BadState, match="upto"):
        runtime.actors.start(Counter)


def test_the_inbox_of_an_actor_is_read_by_nobody_else(runtime: Runtime) -> None:
    queue = runtime.queue
    for make in (queue.inbox, queue.single_shot, queue.synchronous, queue.asynchronous):
        with pytest.raises(BadName, match="actor"):
            make("actor:harvest:main")


def test_a_host_stops_with_its_runtime(make_runtime: Callable[..., Runtime]) -> None:
    runtime = make_runtime()
    runtime.actors.register(Counter)
    before = {thread.ident for thread in threading.enumerate()}
    host = runtime.actors.host()
    host.start()
    run = runtime.actors.start(Counter, Count(3), wants_answer=True)
    assert runtime.actors.outbox().wait(run, timeout_s=30).payload == 3
    at_work = {thread.ident for thread in threading.enumerate() if thread.name.startswith("actor")} - before
    assert at_work
    runtime.close()
    assert not host.is_running
    wait_until(lambda: not [each for each in threading.enumerate() if each.ident in at_work])
