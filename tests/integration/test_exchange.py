"""Finishing one and claiming the next in one transaction."""

from __future__ import annotations

import pytest
from tests.support.quiet import Quiet, shift
from tests.support.tables import message_row, rows, states

from towpath.errors import BadPayload, BadValue, ClaimLost, ProcessDead
from towpath.queue import MessageState


def test_finishes_and_claims(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    asked = outbox.send_many("work", "DO", range(4))
    [first] = inbox.claim()
    [second] = inbox.exchange(first, "one")
    assert (second.id, second.state, second.attempts) == (asked[1], MessageState.ACK, 1)
    assert [message.id for message in inbox.exchange(second, "two", limit=10)] == asked[2:]
    answers = [outbox.poll(one) for one in asked]
    assert [answer and answer.payload for answer in answers] == ["one", "two", None, None]


def test_nothing_waits(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice("work", "DO")
    assert inbox.exchange(inbox.claim()) == []
    assert states(quiet.database) == ["OK"]


def test_delayed_ones_are_seen(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    outbox.notice("work", "DO")
    delayed = outbox.notice("work", "DO", delay_s=10)
    first = inbox.claim()
    assert [message.id for message in first] != [delayed]
    shift(11, quiet)
    assert [message.id for message in inbox.exchange(first)] == [delayed]


def test_with_some_lost_the_others_are_finished_and_nothing_is_claimed(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    ids = quiet.queue.outbox("me").send_many("work", "DO", range(4))
    batch = inbox.claim(3)
    quiet.queue.operator("ada").set_state(ids[1], MessageState.DEAD, "not needed")
    with pytest.raises(ClaimLost) as caught:
        inbox.exchange(batch, "done")
    assert caught.value.message_ids == [ids[1]]
    assert [message_row(quiet.database, one)["state"] for one in ids] == ["OK", "DEAD", "OK", "NEW"]
    replies = [row["related_id"] for row in rows(quiet.database, "message") if row["function"] == "REPLY"]
    assert sorted(replies) == sorted([ids[0], ids[2]])


def test_an_answer_that_cannot_be_sent_changes_nothing(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").send_many("work", "DO", range(2))
    batch = inbox.claim()
    before = rows(quiet.database, "message")
    with pytest.raises(BadPayload):
        inbox.exchange(batch, object())
    with pytest.raises(BadValue):
        inbox.exchange(batch, 1, limit=0)
    assert rows(quiet.database, "message") == before


def test_who_lost_its_lease_exchanges_nothing(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice_many("work", "DO", range(2))
    batch = inbox.claim()
    before = rows(quiet.database, "message")
    quiet.clock.advance(quiet.process.settings.lease_s)
    with pytest.raises(ProcessDead):
        inbox.exchange(batch)
    assert rows(quiet.database, "message") == before
