"""The single-shot inbox: wait for one message, or take over what a dead process left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from tests.support.quiet import LEASE_S, Quiet, let_die, shift
from tests.support.tables import events, message_row, rows, states

from towpath.core.events import EventKind
from towpath.errors import ClaimLost
from towpath.queue import Message
from towpath.runtime import Runtime

Make = Callable[..., Quiet]


def test_what_waits_is_taken_at_once(quiet: Quiet) -> None:
    inbox = quiet.queue.single_shot("work")
    quiet.queue.outbox("me").notice_many("work", "DO", [1, 2])
    first = inbox.receive(20)
    assert first is not None
    assert first.payload == 1
    assert states(quiet.database) == ["ACK", "NEW"]
    inbox.inbox.finish(first)
    assert states(quiet.database) == ["OK", "NEW"]


def test_nothing_comes_in_time(quiet: Quiet) -> None:
    started = time.monotonic()
    assert quiet.queue.single_shot("work").receive(0.2) is None
    assert time.monotonic() - started >= 0.2


def test_a_message_that_comes_later_wakes_it(make_runtime: Callable[..., Runtime]) -> None:
    """The poll is every 60 s: only the bell can have woken it."""
    runtime = make_runtime(queue={"poll_s": 60})
    inbox = runtime.queue.single_shot("work")
    got: list[Message | None] = []
    receiving = threading.Thread(target=lambda: got.append(inbox.receive(30)))
    receiving.start()
    sent = runtime.queue.outbox("me").notice("work", "DO")
    receiving.join(20)
    assert [message and message.id for message in got] == [sent]


def test_a_delayed_message_is_taken_when_due(make_runtime: Callable[..., Runtime]) -> None:
    runtime = make_runtime(queue={"poll_s": 60})
    inbox = runtime.queue.single_shot("work")
    sent = runtime.queue.outbox("me").notice("work", "DO", delay_s=0.2)
    message = inbox.receive(20)
    assert message is not None
    assert message.id == sent


def test_never_stolen_from_the_living(make_quiet: Make) -> None:
    owner, thief = make_quiet(), make_quiet()
    inbox = owner.queue.inbox("work")
    owner.queue.outbox("me").notice("work", "DO")
    [message] = inbox.claim()
    before = rows(owner.database, "message")
    assert thief.queue.single_shot("work").receive(0.05) is None
    shift(LEASE_S * 0.9, owner, thief)
    owner.process.renew()
    shift(LEASE_S * 0.9, owner, thief)
    assert thief.queue.single_shot("work").receive(0.05) is None
    assert rows(owner.database, "message") == before
    inbox.finish(message)


@pytest.mark.parametrize("how", ["dead", "stopped"])
def test_stolen_from_who_is_gone(make_quiet: Make, how: str) -> None:
    owner, thief = make_quiet(), make_quiet()
    inbox = owner.queue.inbox("work")
    sent = owner.queue.outbox("me").send("work", "DO")
    [message] = inbox.claim()
    if how == "stopped":
        owner.process.stop()
    else:
        let_die(owner, thief)
        assert thief.process.mark_dead() == [owner.process.id]
    single_shot = thief.queue.single_shot("work")
    stolen = single_shot.receive(5)
    assert stolen is not None
    assert (stolen.id, stolen.owner, stolen.attempts) == (sent, thief.process.id, 2)
    assert message_row(thief.database, sent)["owner"] == thief.process.id
    with pytest.raises(ClaimLost):
        inbox.finish(message, "late")
    single_shot.inbox.finish(stolen, "mine")
    assert thief.queue.outbox("me").wait(sent, 5).payload == "mine"


def test_stealing_can_be_left_out(make_quiet: Make) -> None:
    owner, other = make_quiet(), make_quiet()
    inbox = owner.queue.inbox("work")
    owner.queue.outbox("me").notice("work", "DO")
    inbox.claim()
    owner.process.stop()
    before = rows(other.database, "message")
    assert other.queue.single_shot("work").receive(0.05, steal=False) is None
    assert rows(other.database, "message") == before


def test_what_waits_comes_before_what_can_be_stolen(make_quiet: Make) -> None:
    owner, thief = make_quiet(), make_quiet()
    inbox = owner.queue.inbox("work")
    owner.queue.outbox("me").notice_many("work", "DO", [1, 2])
    inbox.claim()
    owner.process.stop()
    single_shot = thief.queue.single_shot("work")
    got = [single_shot.receive(5), single_shot.receive(5), single_shot.receive(0.05)]
    assert [message and message.payload for message in got] == [2, 1, None]


def test_two_thieves_get_one_each(make_quiet: Make) -> None:
    owner, first, second = make_quiet(), make_quiet(), make_quiet()
    inbox = owner.queue.inbox("work")
    owner.queue.outbox("me").notice("work", "DO")
    inbox.claim()
    owner.process.stop()
    got: list[Message | None] = []
    threads = [
        threading.Thread(target=lambda thief=thief: got.append(thief.queue.single_shot("work").receive(0.3)))
        for thief in (first, second)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sum(message is not None for message in got) == 1


def test_what_must_never_be_done_twice_is_not_stolen(make_quiet: Make) -> None:
    gone, thief = make_quiet(), make_quiet()
    gone.queue.inbox("work", "dead")
    thief.queue.outbox("me").notice("work", "DO")
    gone.queue.inbox("work", "dead").claim()
    gone.process.stop()
    assert thief.queue.single_shot("work", "dead").receive(0) is None
    assert states(thief.database) == ["DEAD"]
    [event] = events(thief.database, EventKind.MESSAGE_GIVEN_UP)
    assert gone.process.id in event["why"]
