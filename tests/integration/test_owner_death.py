"""When an owner dies its claims are freed by the policy of their inbox, and it is written down who died."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.quiet import LEASE_S, Quiet, let_die, shift
from tests.support.tables import by_hand, events, message_row, rows, states

from towpath.core.events import EventKind
from towpath.errors import ProcessDead, RequestDied
from towpath.queue import MessageState
from towpath.queue.janitor import MOST_FREED_PER_COMMIT

Make = Callable[..., Quiet]


@pytest.fixture
def dying(make_quiet: Make) -> Quiet:
    return make_quiet(process={"name": "dying"})


@pytest.fixture
def survivor(make_quiet: Make) -> Quiet:
    return make_quiet(process={"name": "survivor"})


@pytest.mark.parametrize(
    ("policy", "state", "kind"),
    [
        ("again", "NEW", EventKind.CLAIM_FREED),
        ("err", "ERR", EventKind.MESSAGE_GIVEN_UP),
        ("dead", "DEAD", EventKind.MESSAGE_GIVEN_UP),
    ],
)
def test_policies(dying: Quiet, survivor: Quiet, policy: str, state: str, kind: EventKind) -> None:
    inbox = dying.queue.inbox("work", policy)
    sent = survivor.queue.outbox("me").notice("work", "DO")
    untouched = survivor.queue.outbox("me").notice("work", "DO")
    inbox.claim()
    before = message_row(survivor.database, sent)
    let_die(dying, survivor)
    assert survivor.caretaker.free_the_dead() == 1
    row = message_row(survivor.database, sent)
    changes: dict[str, Any] = {"state": state, "reason": f"its owner {dying.process.id} died"}
    if state == "NEW":
        changes |= {"owner": None, "owner_tick": None}
    assert row == {**before, **changes, "updated_at": row["updated_at"]}
    assert message_row(survivor.database, untouched)["state"] == "NEW"
    [event] = events(survivor.database, kind)
    assert (event["subject"], event["who"], event["why"]) == (sent, "towpath", f"its owner {dying.process.id} died")
    data = json.loads(event["data"])
    assert (data["owner"], data["inbox"], data["failures"]) == (dying.process.id, "work", 1)


def test_the_death_is_written_down_once_with_who_it_was(dying: Quiet, survivor: Quiet) -> None:
    inbox = dying.queue.inbox("work")
    survivor.queue.outbox("me").notice_many("work", "DO", range(3))
    inbox.claim(3)
    [before] = [row for row in rows(survivor.database, "process") if row["id"] == dying.process.id]
    let_die(dying, survivor)
    for _ in range(3):
        survivor.caretaker.run_once()
    [death] = events(survivor.database, EventKind.PROCESS_DIED)
    assert death["subject"] == dying.process.id
    assert "lease" in death["why"]
    data = json.loads(death["data"])
    assert {key: data[key] for key in ("name", "host", "pid", "freed")} == {
        "name": "dying",
        "host": before["host"],
        "pid": before["pid"],
        "freed": 3,
    }
    [row] = [row for row in rows(survivor.database, "process") if row["id"] == dying.process.id]
    assert row == {**before, "state": "dead", "is_settled": 1}
    assert len(events(survivor.database, EventKind.CLAIM_FREED)) == 3


def test_the_death_of_who_held_nothing_is_written_down_too(dying: Quiet, survivor: Quiet) -> None:
    let_die(dying, survivor)
    assert survivor.caretaker.free_the_dead() == 0
    assert [event["subject"] for event in events(survivor.database, EventKind.PROCESS_DIED)] == [dying.process.id]


def test_attempts_are_limited(make_quiet: Make, survivor: Quiet) -> None:
    sent = ""
    for attempt in range(1, 4):
        dying = make_quiet()
        inbox = dying.queue.inbox("work", "again", max_attempts=3)
        sent = sent or survivor.queue.outbox("me").notice("work", "DO")
        [message] = inbox.claim()
        assert message.attempts == attempt
        let_die(dying, survivor)
        survivor.caretaker.free_the_dead()
    assert message_row(survivor.database, sent)["state"] == "DEAD"
    assert len(events(survivor.database, EventKind.CLAIM_FREED)) == 2
    [last] = events(survivor.database, EventKind.MESSAGE_GIVEN_UP)
    assert json.loads(last["data"])["failures"] == 3


def test_giving_back_does_not_count_as_an_attempt(dying: Quiet, survivor: Quiet) -> None:
    inbox = dying.queue.inbox("work", "again", max_attempts=2)
    survivor.queue.outbox("me").notice("work", "DO")
    for _ in range(5):
        inbox.release(inbox.claim())
    inbox.claim()
    let_die(dying, survivor)
    survivor.caretaker.free_the_dead()
    assert states(survivor.database) == ["NEW"]


def test_a_request_gets_the_failure_as_its_answer(dying: Quiet, survivor: Quiet) -> None:
    inbox = dying.queue.inbox("work", "err")
    outbox = survivor.queue.outbox("me")
    sent = outbox.send("work", "DO")
    inbox.claim()
    let_die(dying, survivor)
    survivor.caretaker.free_the_dead()
    answer = outbox.wait(sent, 5)
    assert (answer.state, answer.payload) == (MessageState.ERR, {"error": f"its owner {dying.process.id} died"})


def test_a_request_that_was_given_up_died(dying: Quiet, survivor: Quiet) -> None:
    inbox = dying.queue.inbox("work", "dead")
    outbox = survivor.queue.outbox("me")
    sent = outbox.send("work", "DO")
    inbox.claim()
    let_die(dying, survivor)
    survivor.caretaker.free_the_dead()
    with pytest.raises(RequestDied, match=dying.process.id):
        outbox.wait(sent, 5)


def test_each_inbox_has_its_own_policy(dying: Quiet, survivor: Quiet) -> None:
    for policy in ("again", "err", "dead"):
        inbox = dying.queue.inbox(policy, policy)
        survivor.queue.outbox("me").notice(policy, "DO")
        inbox.claim()
    let_die(dying, survivor)
    assert survivor.caretaker.free_the_dead() == 3
    assert states(survivor.database) == ["NEW", "ERR", "DEAD"]


def test_many_claims_are_freed_in_portions(dying: Quiet, survivor: Quiet) -> None:
    inbox = dying.queue.inbox("work")
    count = 2 * MOST_FREED_PER_COMMIT + 1
    survivor.queue.outbox("me").notice_many("work", "DO", range(count))
    inbox.claim(count)
    let_die(dying, survivor)
    assert survivor.caretaker.free_the_dead() == count
    assert states(survivor.database) == ["NEW"] * count
    assert len(events(survivor.database, EventKind.CLAIM_FREED)) == count


def test_claims_of_who_stopped_in_order_are_freed(dying: Quiet, survivor: Quiet) -> None:
    inbox = dying.queue.inbox("work")
    survivor.queue.outbox("me").notice("work", "DO")
    inbox.claim()
    dying.process.stop()
    survivor.hold_lease()
    assert survivor.caretaker.free_the_dead() == 1
    assert states(survivor.database) == ["NEW"]
    assert events(survivor.database, EventKind.PROCESS_DIED) == []
    assert len(events(survivor.database, EventKind.CLAIM_FREED)) == 1


def test_claims_of_who_has_no_row_are_freed(dying: Quiet, survivor: Quiet) -> None:
    inbox = dying.queue.inbox("work")
    survivor.queue.outbox("me").notice("work", "DO")
    inbox.claim()
    by_hand(survivor.database, "delete from process where id = :id", id=dying.process.id)
    survivor.hold_lease()
    assert survivor.caretaker.free_the_dead() == 1
    assert states(survivor.database) == ["NEW"]


def test_nobody_alive_loses_a_claim(dying: Quiet, survivor: Quiet) -> None:
    inbox = dying.queue.inbox("work")
    survivor.queue.outbox("me").notice("work", "DO")
    inbox.claim()
    survivor.hold_lease()
    before = rows(survivor.database, "message")
    for _ in range(5):
        shift(LEASE_S * 0.9, survivor, dying)
        dying.process.renew()
        survivor.process.renew()
        assert survivor.caretaker.free_the_dead() == 0
    assert rows(survivor.database, "message") == before


def test_a_newcomer_frees_nobody_for_one_lease(dying: Quiet, make_quiet: Make) -> None:
    inbox = dying.queue.inbox("work")
    dying.queue.outbox("me").notice("work", "DO")
    inbox.claim()
    shift(LEASE_S + 1, dying)
    newcomer = make_quiet()
    assert newcomer.caretaker.free_the_dead() == 0
    assert states(newcomer.database) == ["ACK"]
    newcomer.hold_lease()
    assert newcomer.caretaker.free_the_dead() == 1


def test_after_an_outage_everybody_has_the_time_to_renew(dying: Quiet, survivor: Quiet) -> None:
    """The database was away for longer than a lease: all leases have run out, and nobody is dead."""
    inbox = dying.queue.inbox("work")
    survivor.queue.outbox("me").notice("work", "DO")
    inbox.claim()
    survivor.hold_lease()
    for quiet in (survivor, dying):
        quiet.clock.advance(6 * LEASE_S)
    shift(6 * LEASE_S, survivor, dying)
    survivor.process.renew()
    assert survivor.caretaker.free_the_dead() == 0
    for _ in range(9):
        survivor.clock.advance(LEASE_S / 10)
        survivor.process.renew()
        assert survivor.caretaker.free_the_dead() == 0
    dying.process.renew()
    survivor.hold_lease()
    assert survivor.caretaker.free_the_dead() == 0
    assert states(survivor.database) == ["ACK"]
    assert [row["state"] for row in rows(survivor.database, "process")] == ["alive", "alive"]


def test_who_reads_itself_dead_is_told_and_claims_nothing(dying: Quiet, survivor: Quiet) -> None:
    inbox = dying.queue.inbox("work")
    survivor.queue.outbox("me").notice("work", "DO")
    let_die(dying, survivor)
    survivor.caretaker.free_the_dead()
    with pytest.raises(ProcessDead, match="declared"):
        dying.process.renew()
    with pytest.raises(ProcessDead):
        inbox.claim()
    assert states(survivor.database) == ["NEW"]
    assert [row["state"] for row in rows(survivor.database, "process") if row["id"] == dying.process.id] == ["dead"]


def test_who_was_declared_dead_stays_dead_when_it_stops(dying: Quiet, survivor: Quiet) -> None:
    let_die(dying, survivor)
    survivor.caretaker.free_the_dead()
    dying.process.stop()
    assert [row["state"] for row in rows(survivor.database, "process") if row["id"] == dying.process.id] == ["dead"]


def test_a_caretaker_that_died_half_way_is_made_good(dying: Quiet, survivor: Quiet) -> None:
    """Marked dead, and then the one who marked it died too: the next round of anyone frees the claims."""
    inbox = dying.queue.inbox("work")
    survivor.queue.outbox("me").notice("work", "DO")
    inbox.claim()
    by_hand(survivor.database, "update process set state = 'dead' where id = :id", id=dying.process.id)
    survivor.hold_lease()
    assert survivor.caretaker.free_the_dead() == 1
    assert states(survivor.database) == ["NEW"]
    assert len(events(survivor.database, EventKind.PROCESS_DIED)) == 1
