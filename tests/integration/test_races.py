"""Staged races: one side is held inside its open transaction while the other comes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.support.quiet import Quiet, let_die, shift
from tests.support.staging import Acting, held_at
from tests.support.tables import events, message_row, rows, states

from towpath.core.crash import CrashPoint
from towpath.core.events import EventKind
from towpath.errors import ChangedMeanwhile, ClaimLost, DuplicateMessage
from towpath.queue import MessageState
from towpath.queue.payload import new_id

Make = Callable[..., Quiet]


def test_claim_while_an_operator_kills(make_quiet: Make) -> None:
    worker, person = make_quiet(), make_quiet()
    inbox = worker.queue.inbox("work")
    killed, kept = worker.queue.outbox("me").notice_many("work", "DO", [1, 2])
    kill = lambda: person.queue.operator("ada").set_state(killed, MessageState.DEAD, "why")  # noqa: E731
    with held_at(CrashPoint.OPERATE_BEFORE_COMMIT, kill) as (killing, hold):
        claiming = Acting(lambda: inbox.claim(10))
        if worker.database.dialect == "postgres":
            claiming.result()  # passes over what is locked and does not wait
        hold.released.set()
        killing.result()
        assert [message.id for message in claiming.result()] == [kept]
    assert states(worker.database) == ["DEAD", "ACK"]


def test_operator_kills_while_a_claim_is_under_way(make_quiet: Make) -> None:
    worker, person = make_quiet(), make_quiet()
    inbox = worker.queue.inbox("work")
    sent = worker.queue.outbox("me").notice("work", "DO")
    store = worker.queue.parts.messages
    with worker.database.transaction() as tx:
        [message] = store.claim(tx, "work", worker.process.id, worker.process.next_tick(), 1)
        killing = Acting(lambda: person.queue.operator("ada").set_state(sent, MessageState.DEAD, "why"))
    killing.result()
    assert message_row(worker.database, sent)["state"] == "DEAD"
    with pytest.raises(ClaimLost):
        inbox.finish(message)
    assert len(rows(worker.database, "event")) == 1


def test_finish_while_the_dead_are_being_freed(make_quiet: Make) -> None:
    """The caretaker has moved the claim but not committed: the finish that comes now is late."""
    late, caretaker = make_quiet(), make_quiet()
    inbox = late.queue.inbox("work")
    asked = late.queue.outbox("me").send("work", "DO")
    [message] = inbox.claim()
    let_die(late, caretaker)
    with held_at(CrashPoint.FREE_BEFORE_COMMIT, caretaker.caretaker.free_the_dead) as (freeing, hold):
        finishing = Acting(lambda: inbox.finish(message, "late"))
        hold.released.set()
        assert freeing.result() == 1
        with pytest.raises(ClaimLost):
            finishing.result()
    [row] = rows(late.database, "message")
    assert (row["id"], row["state"]) == (asked, "NEW")
    assert len(events(late.database, EventKind.CLAIM_FREED)) == 1


def test_the_dead_are_freed_while_a_finish_is_under_way(make_quiet: Make) -> None:
    """The finish has not committed when the caretaker looks: it finds nothing to free any more."""
    late, caretaker = make_quiet(), make_quiet()
    inbox = late.queue.inbox("work")
    asked = late.queue.outbox("me").send("work", "DO")
    [message] = inbox.claim()
    let_die(late, caretaker)
    with held_at(CrashPoint.FINISH_BEFORE_COMMIT, lambda: inbox.finish(message, "just in time")) as (finishing, hold):
        freeing = Acting(caretaker.caretaker.free_the_dead)
        hold.released.set()
        finishing.result()
        assert freeing.result() == 0
    assert message_row(late.database, asked)["state"] == "OK"
    assert events(late.database, EventKind.CLAIM_FREED, EventKind.MESSAGE_GIVEN_UP) == []
    assert caretaker.queue.outbox("me").wait(asked, 60).payload == "just in time"


@pytest.mark.parametrize(
    "point", [CrashPoint.DEATH_MARKED, CrashPoint.FREE_BEFORE_COMMIT, CrashPoint.FREE_AFTER_COMMIT]
)
def test_two_caretakers_at_once(make_quiet: Make, point: CrashPoint) -> None:
    dead, first, second = make_quiet(), make_quiet(), make_quiet()
    inbox = dead.queue.inbox("work")
    ids = dead.queue.outbox("me").notice_many("work", "DO", range(5))
    inbox.claim(5)
    let_die(dead, first, second)
    with held_at(point, first.caretaker.free_the_dead) as (held, hold):
        other = Acting(second.caretaker.free_the_dead)
        hold.released.set()
        assert held.result() + other.result() == 5
    assert states(first.database) == ["NEW"] * 5
    assert sorted(event["subject"] for event in events(first.database, EventKind.CLAIM_FREED)) == sorted(ids)
    deaths = events(first.database, EventKind.PROCESS_DIED)
    assert 1 <= len(deaths) <= 2
    assert {event["subject"] for event in deaths} == {dead.process.id}
    assert sum(json.loads(event["data"])["freed"] for event in deaths) in (0, 5)
    assert [row["is_settled"] for row in rows(first.database, "process") if row["id"] == dead.process.id] == [1]


def test_two_operators_edit_at_once(make_quiet: Make) -> None:
    ada, bob = make_quiet(), make_quiet()
    ada.queue.inbox("work")
    sent = ada.queue.outbox("me").notice("work", "DO", 0)
    seen = ada.queue.browser().message(sent)
    edit = lambda quiet, who: quiet.queue.operator(who).edit(sent, "why", payload=who, seen=seen)  # noqa: E731
    with held_at(CrashPoint.OPERATE_BEFORE_COMMIT, lambda: edit(ada, "ada")) as (first, hold):
        second = Acting(lambda: edit(bob, "bob"))
        hold.released.set()
        first.result()
        with pytest.raises(ChangedMeanwhile):
            second.result()
    assert message_row(ada.database, sent)["payload"] == '"ada"'
    assert [event["who"] for event in rows(ada.database, "event")] == ["ada"]


@pytest.mark.parametrize("commits", [True, False])
def test_the_same_id_is_sent_twice_at_once(make_quiet: Make, commits: bool) -> None:
    first, second = make_quiet(), make_quiet()
    first.queue.inbox("work")
    chosen = new_id()
    try:
        with first.database.transaction() as tx:
            first.queue.outbox("me").notice("work", "DO", "first", message_id=chosen, tx=tx)
            sending = Acting(lambda: second.queue.outbox("me").notice("work", "DO", "second", message_id=chosen))
            if not commits:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    if commits:
        with pytest.raises(DuplicateMessage):
            sending.result()
    else:
        sending.result()
    assert [row["payload"] for row in rows(first.database, "message")] == ['"first"' if commits else '"second"']


def test_reaper_and_claim_at_once(make_quiet: Make) -> None:
    """What the reaper has in hand is not claimed, and what was claimed is not reaped."""
    reaper, worker = make_quiet(), make_quiet()
    inbox = worker.queue.inbox("work")
    outbox = worker.queue.outbox("me")
    outbox.notice("work", "DO", ttl_s=10)
    outbox.notice("work", "DO")
    shift(20, reaper, worker)
    with held_at(CrashPoint.REAP_BEFORE_COMMIT, reaper.caretaker.reap) as (reaping, hold):
        claiming = Acting(lambda: inbox.claim(10))
        hold.released.set()
        assert reaping.result() == 1
        assert len(claiming.result()) == 1
    assert states(worker.database) == ["DEAD", "ACK"]
