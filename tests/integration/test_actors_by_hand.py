"""What people do to actors: abort them, and change the queue under them."""

from __future__ import annotations

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
from tests.support.tables import events

from towpath.actors import End, Sleep, Wait
from towpath.actors.instance import Phase
from towpath.errors import NotAsleep, NotRunning, UnknownActor
from towpath.queue import MessageState
from towpath.testing.clock import wait_until


def test_abort_of_a_sleeping_one(theatre: Theatre) -> None:
    Doer.actions["sleep"] = lambda turn: Sleep(Do("never"), seconds=3600)
    theatre.actors.start(Doer, Do("sleep"))
    wait_until(lambda: theatre.actors.instance("doer").phase is Phase.SLEEPING)
    theatre.actors.abort("doer", who="ann", why="enough")
    assert theatre.rest_of("doer").phase is Phase.FAILED
    assert [reason.endswith("ann: enough") for reason in Doer.cleaned] == [True]
    assert theatre.history("doer") == [("Do", "ERR"), ("Do", "OK"), ("Do", "DEAD"), ("Failed", "OK")]
    [event] = events(theatre.runtime.database, "actor_aborted_by_hand")
    assert (event["subject"], event["who"], event["why"]) == ("doer:main", "ann", "enough")


def test_abort_of_a_running_one(theatre: Theatre) -> None:
    gate = Gate()
    Doer.actions["wait"] = gate
    theatre.actors.start(Doer, Do("wait"))
    assert gate.begun.wait(30)
    theatre.actors.abort("doer", who="ann", why="enough")
    wait_until(lambda: any(work.turn.is_aborted for work in theatre.host._running.values()))
    assert theatre.actors.instance("doer").phase is Phase.RUNNING, "its code runs, so nothing else does"
    gate.go_on.set()
    assert "ann: enough" in (theatre.rest_of("doer").reason or "")
    assert gate.was_aborted
    assert [reason.endswith("ann: enough") for reason in Doer.cleaned] == [True]


def test_abort_of_what_does_not_run(theatre: Theatre) -> None:
    with pytest.raises(UnknownActor):
        theatre.actors.abort("doer", who="ann", why="enough")
    theatre.actors.start(Counter, Count(0))
    theatre.rest_of("counter")
    with pytest.raises(NotRunning):
        theatre.actors.abort("counter", who="ann", why="enough")


def test_a_sleeping_one_is_woken(theatre: Theatre) -> None:
    theatre.actors.start(Sleeper, Nap(3600))
    wait_until(lambda: theatre.actors.instance("sleeper").phase is Phase.SLEEPING)
    due = theatre.actors.instance("sleeper").due_at
    theatre.actors.wake("sleeper", who="ann", why="no time to sleep")
    assert theatre.rest_of("sleeper").phase is Phase.ENDED
    [event] = events(theatre.runtime.database, "actor_woken_by_hand")
    assert (event["subject"], event["who"], event["why"]) == ("sleeper:main", "ann", "no time to sleep")
    assert due is not None
    assert due.isoformat() in str(event["data"])


def test_what_does_not_sleep_is_not_woken(theatre: Theatre) -> None:
    with pytest.raises(UnknownActor):
        theatre.actors.wake("doer", who="ann", why="up")
    Doer.actions["ask"] = lambda turn: Wait(turn.send("work", "Q"), Do("never"))
    theatre.runtime.queue.inbox("work")
    theatre.actors.start(Doer, Do("ask"))
    wait_until(lambda: theatre.actors.instance("doer").phase is Phase.WAITING)
    with pytest.raises(NotAsleep):
        theatre.actors.wake("doer", who="ann", why="up")
    assert theatre.actors.instance("doer").phase is Phase.WAITING
    assert events(theatre.runtime.database, "actor_woken_by_hand") == []


def test_strays_are_refused(theatre: Theatre) -> None:
    theatre.actors.start(Sleeper, Nap(3600))
    wait_until(lambda: theatre.actors.instance("sleeper").phase is Phase.SLEEPING)
    head = theatre.actors.instance("sleeper").head
    outbox = theatre.runtime.queue.outbox("me")
    last = theatre.actors.instance("sleeper").last_id
    for related in (None, head, last):
        refused = outbox.request("actor:sleeper:main", "Awake", {}, timeout_s=30, related_id=related)
        assert not refused.is_ok
    assert theatre.actors.instance("sleeper").head_id == head
    assert theatre.actors.instance("sleeper").phase is Phase.SLEEPING


@pytest.mark.parametrize(
    ("function", "payload", "reason"),
    [
        ("Gone", {}, "'Gone' is no state of sleeper"),
        ("Nap", {"seconds": "long"}, "this is no Nap: seconds: "),
        ("Nap", [1], "this is no Nap"),
    ],
)
def test_a_start_by_hand_that_does_not_fit(theatre: Theatre, function: str, payload: object, reason: str) -> None:
    theatre.actors.start(Sleeper, Nap(0))
    theatre.rest_of("sleeper")
    refused = theatre.runtime.queue.outbox("me").request("actor:sleeper:main", function, payload, timeout_s=30)
    assert reason in refused.payload["error"]
    assert theatre.actors.instance("sleeper").phase is Phase.ENDED


def test_the_sleeping_message_is_edited(theatre: Theatre) -> None:
    theatre.actors.start(Counter, Count(0))  # so that the second run is no first one
    theatre.rest_of("counter")
    Doer.actions["later"] = lambda turn: Sleep(Do("first"), seconds=3600)
    Doer.actions["second"] = lambda turn: End("second")
    run = theatre.actors.start(Doer, Do("later"), wants_answer=True)
    wait_until(lambda: theatre.actors.instance("doer").phase is Phase.SLEEPING)
    head = theatre.actors.instance("doer").head
    theatre.runtime.queue.operator("ann").edit(head, "another one", payload={"what": "second"})
    theatre.runtime.database.shift_clock(3601)
    assert theatre.actors.outbox().wait(run, timeout_s=30).payload == "second"


def test_the_sleeping_message_is_killed(theatre: Theatre) -> None:
    theatre.actors.start(Sleeper, Nap(3600))
    wait_until(lambda: theatre.actors.instance("sleeper").phase is Phase.SLEEPING)
    head = theatre.actors.instance("sleeper").head
    theatre.runtime.queue.operator("ann").set_state(head, MessageState.DEAD, "not wanted")
    theatre.host._strays_at = float("-inf")
    rest = theatre.rest_of("sleeper")
    assert rest.phase is Phase.FAILED
    assert "ann: not wanted" in (rest.reason or "")


def test_the_sleeping_message_is_sent_again(theatre: Theatre) -> None:
    """Sent again it does not sleep any longer."""
    theatre.actors.start(Sleeper, Nap(3600))
    wait_until(lambda: theatre.actors.instance("sleeper").phase is Phase.SLEEPING)
    head = theatre.actors.instance("sleeper").head
    operator = theatre.runtime.queue.operator("ann")
    theatre.host._strays_at = float("inf")  # it does not look for them between these two
    operator.set_state(head, MessageState.DEAD, "first")
    operator.set_state(head, MessageState.NEW, "then")
    assert theatre.rest_of("sleeper").phase is Phase.ENDED


def test_the_running_message_is_killed(theatre: Theatre) -> None:
    gate = Gate()
    Doer.actions["wait"] = gate
    theatre.actors.start(Doer, Do("wait"))
    assert gate.begun.wait(30)
    head = theatre.actors.instance("doer").head
    theatre.runtime.queue.operator("ann").set_state(head, MessageState.ERR, "it hangs")
    gate.go_on.set()
    rest = theatre.rest_of("doer")
    assert "ann: it hangs" in (rest.reason or "")


def test_the_running_message_is_sent_again(theatre: Theatre) -> None:
    first, second = Gate(), Gate()
    gates = [first, second]
    Doer.actions["wait"] = lambda turn: gates.pop(0)(turn)
    run = theatre.actors.start(Doer, Do("wait"), wants_answer=True)
    assert first.begun.wait(30)
    head = theatre.actors.instance("doer").head
    theatre.runtime.queue.operator("ann").set_state(head, MessageState.NEW, "once more")
    assert not second.begun.wait(1), "one actor is never run twice at once"
    first.go_on.set()
    assert second.begun.wait(30)
    second.go_on.set()
    assert theatre.actors.outbox().wait(run, timeout_s=30).payload == "late"
