"""Claiming: the oldest first, each message to one process, and a claim that was lost counts for nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.quiet import Quiet, let_die
from tests.support.tables import message_row, rows, states

from towpath.errors import BadName, BadValue, ClaimLost, DatabaseError, ProcessDead
from towpath.queue import MessageState
from towpath.queue.inbox import MOST_PER_CLAIM


def test_a_claim_takes_the_oldest_and_stamps_them(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    ids = quiet.queue.outbox("me").notice_many("work", "DO", range(5))
    before = rows(quiet.database, "message")
    claimed = inbox.claim(3)
    assert [message.id for message in claimed] == ids[:3]
    after = rows(quiet.database, "message")
    stamp = {"state": "ACK", "owner": quiet.process.id, "owner_tick": 1, "attempts": 1}
    assert after[:3] == [
        {**row, **stamp, "updated_at": new["updated_at"]} for row, new in zip(before[:3], after, strict=False)
    ]
    assert after[3:] == before[3:]
    assert {message.owner_tick for message in inbox.claim(3)} == {2}
    assert inbox.claim(3) == []


def test_what_a_claim_returns_is_what_the_table_holds(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").send("work", "DO", {"ü": 1}, headers={"h": [1]}, ttl_s=60)
    [message] = inbox.claim()
    assert message == quiet.queue.browser().message(message.id)
    assert (message.payload, message.headers, message.state) == ({"ü": 1}, {"h": [1]}, MessageState.ACK)
    assert (message.failures, message.expects_answer) == (1, True)
    assert message.updated_at > message.created_at


def test_order_is_that_of_sending_not_of_ids(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    ids = [f"{n:08x}-0000-7000-8000-000000000000" for n in (9, 3, 7, 1)]
    for chosen in ids:
        outbox.notice("work", "DO", message_id=chosen)
    assert [message.id for message in inbox.claim(10)] == ids


def test_inboxes_do_not_mix(quiet: Quiet) -> None:
    a, b = quiet.queue.inbox("a"), quiet.queue.inbox("b")
    outbox = quiet.queue.outbox("me")
    sent = {name: [outbox.notice(name, "DO") for _ in range(2)] for name in ("a", "b")}
    assert [message.id for message in b.claim(10)] == sent["b"]
    assert [message.id for message in a.claim(10)] == sent["a"]


def test_two_processes_share_without_overlap(make_quiet: Callable[[], Quiet]) -> None:
    first, second = make_quiet(), make_quiet()
    ids = set()
    mine, yours = first.queue.inbox("work"), second.queue.inbox("work")
    ids.update(first.queue.outbox("me").notice_many("work", "DO", range(20)))
    got = [{message.id for message in inbox.claim(6)} for inbox in (mine, yours, mine, yours)]
    assert [len(batch) for batch in got] == [6, 6, 6, 2]
    assert set.union(*got) == ids


@pytest.mark.parametrize("limit", [0, -1, MOST_PER_CLAIM + 1])
def test_limits(quiet: Quiet, limit: int) -> None:
    with pytest.raises(BadValue, match=f"limit={limit} "):
        quiet.queue.inbox("work").claim(limit)


def test_inboxes_that_cannot_be(quiet: Quiet) -> None:
    with pytest.raises(BadName):
        quiet.queue.inbox("a b")
    with pytest.raises(BadValue, match="again, err, dead"):
        quiet.queue.inbox("work", "perhaps")
    with pytest.raises(BadValue, match="max_attempts=0"):
        quiet.queue.inbox("work", max_attempts=0)
    assert rows(quiet.database, "inbox") == []


def test_opening_an_inbox_again_changes_its_policy(quiet: Quiet) -> None:
    quiet.queue.inbox("work", "again", 5)
    [before] = rows(quiet.database, "inbox")
    quiet.queue.inbox("work", "dead", 2)
    assert rows(quiet.database, "inbox") == [{**before, "on_owner_death": "dead", "max_attempts": 2}]


def test_a_late_finish_is_refused_and_writes_nothing(make_quiet: Callable[[], Quiet]) -> None:
    late, other = make_quiet(), make_quiet()
    inbox = late.queue.inbox("work")
    asked = other.queue.outbox("me").send("work", "DO", 1)
    [message] = inbox.claim()
    let_die(late, other)
    assert other.caretaker.free_the_dead() == 1
    [again] = other.queue.inbox("work").claim()
    assert (again.id, again.attempts) == (asked, 2)
    before = rows(other.database, "message"), rows(other.database, "event")
    for end in (
        lambda: inbox.finish(message, "late"),
        lambda: inbox.fail(message, "late"),
        lambda: inbox.release(message),
    ):
        with pytest.raises(ClaimLost) as caught:
            end()
        assert caught.value.message_ids == [asked]
    assert (rows(other.database, "message"), rows(other.database, "event")) == before
    other.queue.inbox("work").finish(again, "in time")
    answer = other.queue.outbox("me").poll(asked)
    assert answer is not None
    assert answer.payload == "in time"


def test_the_same_process_cannot_finish_an_earlier_claim_of_its_own(quiet: Quiet) -> None:
    """The owner is the same, the tick is not."""
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice("work", "DO")
    [first] = inbox.claim()
    inbox.release(first)
    [second] = inbox.claim()
    before = rows(quiet.database, "message")
    with pytest.raises(ClaimLost):
        inbox.finish(first)
    assert rows(quiet.database, "message") == before
    inbox.finish(second)


def test_finishing_twice_is_refused(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    asked = quiet.queue.outbox("me").send("work", "DO")
    [message] = inbox.claim()
    inbox.finish(message, 1)
    before = rows(quiet.database, "message")
    with pytest.raises(ClaimLost):
        inbox.finish(message, 2)
    assert rows(quiet.database, "message") == before
    assert message_row(quiet.database, asked)["state"] == "OK"


@pytest.mark.parametrize("kind", ["send_many", "notice_many"])
@pytest.mark.parametrize("end", ["finish", "fail", "release"])
def test_a_batch_of_which_some_were_lost(quiet: Quiet, kind: str, end: str) -> None:
    inbox = quiet.queue.inbox("work")
    ids = getattr(quiet.queue.outbox("me"), kind)("work", "DO", range(6))
    batch = inbox.claim(4) + inbox.claim(2)
    operator = quiet.queue.operator("ada")
    for lost in (ids[1], ids[4]):
        operator.set_state(lost, MessageState.DEAD, "not needed")
    before = {row["id"]: row for row in rows(quiet.database, "message")}
    arguments = {"finish": ("done",), "fail": ("broke",), "release": ()}[end]
    with pytest.raises(ClaimLost) as caught:
        getattr(inbox, end)(batch, *arguments)
    assert sorted(caught.value.message_ids) == sorted([ids[1], ids[4]])
    after = {row["id"]: row for row in rows(quiet.database, "message")}
    target = {"finish": "OK", "fail": "ERR", "release": "NEW"}[end]
    assert [after[one]["state"] for one in ids] == [target, "DEAD", target, target, "DEAD", target]
    assert {one: after[one] for one in (ids[1], ids[4])} == {one: before[one] for one in (ids[1], ids[4])}
    answered = sorted(row["related_id"] for row in after.values() if row["inbox"] == "me//reply")
    told = kind == "send_many" and end != "release"
    assert answered == (sorted(set(ids) - {ids[1], ids[4]}) if told else [])


def test_a_batch_finish_in_the_callers_transaction_rolls_back_whole(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").send_many("work", "DO", range(3))
    batch = inbox.claim(3)
    quiet.queue.operator("ada").set_state(batch[1].id, MessageState.DEAD, "not needed")
    before = rows(quiet.database, "message")
    with pytest.raises(ClaimLost), quiet.database.transaction() as tx:
        inbox.finish(batch, tx=tx)
    assert rows(quiet.database, "message") == before


def test_finishing_nothing(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    inbox.finish([])
    inbox.fail([], "broke")
    inbox.release([])
    assert rows(quiet.database, "message") == []


def test_what_is_sent_with_a_finish_commits_with_it(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    outbox.notice("work", "FIRST")
    [message] = inbox.claim()
    with pytest.raises(ZeroDivisionError), quiet.database.transaction() as tx:
        inbox.finish(message, tx=tx)
        outbox.notice("work", "SECOND", tx=tx)
        raise ZeroDivisionError
    assert states(quiet.database) == ["ACK"]
    with quiet.database.transaction() as tx:
        inbox.finish(message, tx=tx)
        outbox.notice("work", "SECOND", tx=tx)
    assert states(quiet.database) == ["OK", "NEW"]


def test_a_second_transaction_in_the_same_thread_is_refused(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    outbox.notice("work", "DO")
    with quiet.database.transaction() as tx:
        outbox.notice("work", "DO", tx=tx)
        for act in (lambda: outbox.notice("work", "DO"), lambda: inbox.claim(), lambda: inbox.eavesdrop()):
            with pytest.raises(DatabaseError, match="tx="):
                act()
    assert states(quiet.database) == ["NEW", "NEW"]


def test_who_lost_its_lease_claims_nothing_until_it_renewed(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice("work", "DO")
    quiet.clock.advance(quiet.process.settings.lease_s)
    with pytest.raises(ProcessDead):
        inbox.claim()
    assert states(quiet.database) == ["NEW"]
    quiet.process.renew()
    assert len(inbox.claim()) == 1


def test_a_released_batch_waits_again_and_burns_no_attempt(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice_many("work", "DO", range(3))
    before = rows(quiet.database, "message")
    inbox.release(inbox.claim(3))
    after = rows(quiet.database, "message")
    assert after == [
        {**row, "attempts": 1, "give_backs": 1, "updated_at": new["updated_at"]}
        for row, new in zip(before, after, strict=True)
    ]
    assert [message.failures for message in inbox.claim(3)] == [1, 1, 1]


@pytest.mark.parametrize("delay_s", [-1.0, float("nan"), float("inf")])
def test_giving_back_for_no_time_that_exists_is_refused(quiet: Quiet, delay_s: float) -> None:
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice("work", "DO")
    [message] = inbox.claim()
    before = rows(quiet.database, "message")
    with pytest.raises(BadValue):
        inbox.release(message, delay_s)
    assert rows(quiet.database, "message") == before


def test_a_reason_may_hold_anything(quiet: Quiet) -> None:
    """It comes from exceptions, which hold whatever input broke the handler."""
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    sent = [outbox.notice("work", "DO"), outbox.send("work", "DO")]
    for message in inbox.claim(2):
        inbox.fail(message, "a\x00b \ud800 ü")
    found = [message_row(quiet.database, one) for one in sent]
    assert [row["state"] for row in found] == ["ERR", "ERR"]
    assert all("ü" in row["reason"] for row in found)
