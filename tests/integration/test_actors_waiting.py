"""Actors that wait, sleep and call each other."""

from __future__ import annotations

import pytest
from tests.support.actors import (
    Ask,
    Asker,
    Do,
    Doer,
    Gather,
    Nap,
    Parent,
    Sleeper,
    Theatre,
    payload_of,
)

from towpath.actors import End, Failed, Sleep, Turn, Wait
from towpath.actors.engine import host
from towpath.actors.instance import Phase
from towpath.errors import RequestDied
from towpath.queue import Message
from towpath.testing.clock import wait_until


def test_it_waits_for_an_answer(theatre: Theatre) -> None:
    work = theatre.runtime.queue.synchronous("work")
    got: list[Message] = []

    @work.on("ASK")
    def answer(message: Message) -> str:
        got.append(message)
        return "forty-two"

    run = theatre.actors.start(Asker, Ask("work"), wants_answer=True)
    wait_until(lambda: theatre.actors.instance("asker").phase is Phase.WAITING)
    work.start()
    try:
        assert theatre.actors.outbox().wait(run, timeout_s=30).payload == "forty-two"
    finally:
        work.stop()
    assert [each.reply_to for each in got] == ["actor:asker:main//reply"]
    assert got[0].audit_id == theatre.messages("asker")[1].id


def test_an_answer_that_is_there_before_the_wait(theatre: Theatre) -> None:
    inbox = theatre.runtime.queue.inbox("work")
    ids: list[str] = []

    def ask(turn: Turn) -> Sleep:
        ids.append(turn.send("work", "ASK"))
        return Sleep(Do("wait"), seconds=0.01)

    def wait(turn: Turn) -> object:
        inbox.finish(inbox.claim(1), "early")
        return Wait(ids[0], Do("tell"))

    Doer.actions.update(ask=ask, wait=wait, tell=lambda turn: End(payload_of(turn, ids[0])))
    run = theatre.actors.start(Doer, Do("ask"), wants_answer=True)
    assert theatre.actors.outbox().wait(run, timeout_s=30).payload == "early"


def test_a_wait_that_takes_too_long(theatre: Theatre) -> None:
    theatre.runtime.queue.inbox("work")
    run = theatre.actors.start(Asker, Ask("work", timeout_s=0.2), wants_answer=True)
    assert theatre.actors.outbox().wait(run, timeout_s=30).payload == "nothing"
    assert theatre.history("asker")[1:4] == [("Ask", "OK"), ("Heard", "OK"), ("Nothing", "OK")]


def test_a_question_that_dies(theatre: Theatre, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "STRAYS_EVERY_S", 0.2)  # what nobody answers is looked for now and then
    theatre.runtime.queue.inbox("work")
    ids: list[str] = []

    def ask(turn: Turn) -> object:
        ids.append(turn.send("work", "ASK", ttl_s=0.1))
        return Wait(ids[0], Do("tell"))

    def tell(turn: Turn) -> object:
        with pytest.raises(RequestDied):
            turn.answer(ids[0])
        return End("it died")

    Doer.actions.update(ask=ask, tell=tell)
    theatre.actors.start(Doer, Do("ask"))
    assert theatre.rest_of("doer").phase is Phase.ENDED


def test_it_sleeps(theatre: Theatre) -> None:
    theatre.actors.start(Sleeper, Nap(3600))
    wait_until(lambda: theatre.actors.instance("sleeper").phase is Phase.SLEEPING)
    theatre.runtime.database.shift_clock(3601)
    assert theatre.rest_of("sleeper").phase is Phase.ENDED


def test_it_calls_others_and_gathers(theatre: Theatre) -> None:
    run = theatre.actors.start(Parent, Gather(list(range(10))), wants_answer=True)
    assert theatre.actors.outbox().wait(run, timeout_s=60).payload == 45


def test_the_failure_of_a_child(theatre: Theatre) -> None:
    def fail(turn: Turn) -> Failed:
        return Failed("no luck")

    def call(turn: Turn) -> object:
        child = turn.call(Doer, Do("fail"), instance="child")
        Doer.actions["tell"] = lambda turn: End(payload_of(turn, child))
        return Wait(child, Do("tell"))

    Doer.actions.update(fail=fail, call=call)
    run = theatre.actors.start(Doer, Do("call"), wants_answer=True)
    assert theatre.actors.outbox().wait(run, timeout_s=30).payload == {"error": "no luck"}


def test_a_call_by_name_with_a_state_that_is_none(theatre: Theatre) -> None:
    def call(turn: Turn) -> object:
        child = turn.call("counter", Do("what"))
        Doer.actions["tell"] = lambda turn: End(payload_of(turn, child))
        return Wait(child, Do("tell"))

    Doer.actions["call"] = call
    run = theatre.actors.start(Doer, Do("call"), wants_answer=True)
    said = theatre.actors.outbox().wait(run, timeout_s=30).payload
    assert list(said) == ["error"]
    assert "'Do'" in said["error"]


@pytest.mark.parametrize("is_tied", [True, False])
def test_children_of_an_aborted_parent(theatre: Theatre, is_tied: bool) -> None:
    def call(turn: Turn) -> object:
        child = turn.call(Sleeper, Nap(3600), instance="child", is_tied=is_tied)
        return Wait(child, Do("tell"))

    Doer.actions["call"] = call
    theatre.actors.start(Doer, Do("call"))
    wait_until(
        lambda: (
            [each.phase for each in theatre.actors.instances(actor="sleeper")] == [Phase.SLEEPING]
            and theatre.actors.instance("doer").phase is Phase.WAITING
        )
    )
    theatre.actors.abort("doer", who="ann", why="a mistake")
    assert "ann: a mistake" in (theatre.rest_of("doer").reason or "")
    if is_tied:
        assert "doer:main" in (theatre.rest_of("sleeper", "child").reason or "")
    else:
        assert theatre.actors.instance("sleeper", "child").phase is Phase.SLEEPING
