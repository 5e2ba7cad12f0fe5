"""Delayed delivery, time to live, and the reaper."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from tests.support.quiet import Quiet, shift
from tests.support.tables import events, message_row, rows, states

from towpath.core.events import EventKind
from towpath.errors import RequestDied
from towpath.queue import Message, MessageState
from towpath.queue.janitor import MOST_FREED_PER_COMMIT
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until


def test_a_delayed_message_is_not_claimed_before_its_time(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    late, later = outbox.notice("work", "DO", delay_s=60), outbox.notice("work", "DO", delay_s=120)
    now = outbox.notice("work", "DO")
    assert [message.id for message in inbox.claim(10)] == [now]
    until = inbox.seconds_until_due()
    assert until is not None
    assert 30 < until <= 60
    shift(61, quiet)
    assert inbox.seconds_until_due() == 0
    assert [message.id for message in inbox.claim(10)] == [late]
    shift(61, quiet)
    assert [message.id for message in inbox.claim(10)] == [later]
    assert inbox.seconds_until_due() is None


def test_due_and_ready_messages_are_claimed_in_the_order_of_sending(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    ids = [outbox.notice("work", "DO", delay_s=delay_s) for delay_s in (50, None, 10, None, 30)]
    shift(60, quiet)
    assert [message.id for message in inbox.claim(3)] == ids[:3]
    assert [message.id for message in inbox.claim(3)] == ids[3:]


def test_giving_back_with_a_delay(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice("work", "DO")
    inbox.release(inbox.claim(), delay_s=60)
    assert inbox.claim() == []
    shift(61, quiet)
    assert len(inbox.claim()) == 1


def test_a_delayed_message_is_handled_in_time_without_a_poll(make_runtime: Callable[..., Runtime]) -> None:
    """The poll is once an hour: only the due time itself can have woken the worker."""
    runtime = make_runtime(queue={"poll_s": 3600})
    worker = runtime.queue.synchronous("work")
    handled: list[tuple[float, Message]] = []
    worker.on("DO")(lambda message: handled.append((time.monotonic(), message)))
    worker.start()
    try:
        outbox = runtime.queue.outbox("me")
        outbox.notice("work", "DO", "first")
        wait_until(lambda: len(handled) == 1)
        sent = time.monotonic()
        outbox.notice("work", "DO", "delayed", delay_s=0.5)
        wait_until(lambda: len(handled) == 2)
        assert handled[1][0] - sent > 0.45
    finally:
        worker.stop()


def test_expired_messages_are_not_claimed_even_before_they_are_reaped(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    outbox.notice("work", "DO", ttl_s=10)
    outbox.notice("work", "DO", ttl_s=10, delay_s=5)
    kept = outbox.notice("work", "DO", ttl_s=100)
    before = rows(quiet.database, "message")
    shift(20, quiet)
    assert [message.id for message in inbox.claim(10)] == [kept]
    assert rows(quiet.database, "message")[:2] == before[:2]


def test_the_reaper_writes_down_what_died(quiet: Quiet) -> None:
    quiet.queue.inbox("a")
    quiet.queue.inbox("b")
    outbox = quiet.queue.outbox("me")
    short = [outbox.notice(name, "DO", ttl_s=10) for name in ("a", "a", "b")]
    outbox.notice("a", "DO", ttl_s=100)
    outbox.notice("b", "DO")
    before = rows(quiet.database, "message")
    assert quiet.caretaker.reap() == 0
    shift(20, quiet)
    assert quiet.caretaker.reap() == 3
    after = rows(quiet.database, "message")
    dead = {"state": "DEAD", "reason": "ttl ran out before anyone claimed it"}
    assert after[:3] == [
        {**row, **dead, "updated_at": new["updated_at"]} for row, new in zip(before[:3], after, strict=False)
    ]
    assert after[3:] == before[3:]
    expired = {
        event["subject"]: json.loads(event["data"]) for event in events(quiet.database, EventKind.MESSAGES_EXPIRED)
    }
    assert {name: (data["count"], sorted(data["messages"])) for name, data in expired.items()} == {
        "a": (2, sorted(short[:2])),
        "b": (1, short[2:]),
    }
    assert quiet.caretaker.reap() == 0


def test_many_are_reaped_in_portions(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    count = MOST_FREED_PER_COMMIT + 1
    with quiet.database.transaction() as tx:
        for _ in range(count):
            outbox.notice("work", "DO", ttl_s=10, tx=tx)
    shift(20, quiet)
    assert quiet.caretaker.reap() == count
    assert states(quiet.database) == ["DEAD"] * count
    assert inbox.claim() == []


def test_time_to_live_counts_from_when_it_could_first_be_taken(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice("work", "DO", delay_s=1000, ttl_s=100)
    shift(1010, quiet)
    assert quiet.caretaker.reap() == 0
    assert len(inbox.claim()) == 1


def test_what_was_claimed_in_time_does_not_expire(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice("work", "DO", ttl_s=10)
    claimed = inbox.claim()
    shift(20, quiet)
    assert quiet.caretaker.reap() == 0
    inbox.finish(claimed)
    assert states(quiet.database) == ["OK"]


def test_what_was_given_back_was_taken_in_time(quiet: Quiet) -> None:
    """Its time to live was for waiting until somebody takes it, which somebody did."""
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice("work", "DO", ttl_s=10)
    inbox.release(inbox.claim())
    shift(20, quiet)
    assert quiet.caretaker.reap() == 0
    assert len(inbox.claim()) == 1


def test_who_waits_for_an_expired_request_is_told(quiet: Quiet) -> None:
    quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    sent = outbox.send("work", "DO", ttl_s=10)
    shift(20, quiet)
    quiet.caretaker.reap()
    with pytest.raises(RequestDied, match="ttl") as caught:
        outbox.wait(sent, 5)
    assert caught.value.message_id == sent


def test_a_requeued_message_lives_its_time_again(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    sent = quiet.queue.outbox("me").notice("work", "DO", ttl_s=10)
    shift(20, quiet)
    quiet.caretaker.reap()
    quiet.queue.operator("ada").set_state(sent, MessageState.NEW, "try once more")
    row = message_row(quiet.database, sent)
    assert row["expires_at"] == row["updated_at"] + 10_000_000
    assert len(inbox.claim()) == 1
