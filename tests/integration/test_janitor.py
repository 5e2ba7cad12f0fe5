"""The janitor deletes what is past its retention time, by state, in portions, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.quiet import Quiet, let_die, shift
from tests.support.tables import by_hand, events, rows, states

from towpath.core.events import EventKind
from towpath.queue import MessageState
from towpath.queue.janitor import MOST_PER_COMMIT

DAY_S = 86_400.0
Make = Callable[..., Quiet]


def one_of_each(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice_many("work", "DO", range(5))
    claimed = inbox.claim(4)
    inbox.finish(claimed[0])
    inbox.fail(claimed[1], "broke")
    quiet.queue.operator("ada").set_state(claimed[2].id, MessageState.DEAD, "why")


@pytest.mark.parametrize(
    ("days", "left"),
    [
        (2, ["OK", "ERR", "DEAD", "ACK", "NEW"]),
        (4, ["ERR", "DEAD", "ACK", "NEW"]),
        (15, ["ERR", "ACK", "NEW"]),
        (3650, ["ERR", "ACK", "NEW"]),
    ],
)
def test_defaults(quiet: Quiet, days: int, left: list[str]) -> None:
    """OK 3 days, DEAD 14 days, ERR until a person clears it."""
    one_of_each(quiet)
    before = rows(quiet.database, "message")
    shift(days * DAY_S, quiet)
    done = quiet.queue.janitor().clean()
    assert rows(quiet.database, "message") == [row for row in before if row["state"] in left]
    assert (done["ok"], done["err"], done["dead"]) == (1 - left.count("OK"), 0, 1 - left.count("DEAD"))


@pytest.mark.parametrize(
    ("retention", "left"),
    [
        ({"ok_s": None, "err_s": None, "dead_s": None}, ["OK", "ERR", "DEAD", "ACK", "NEW"]),
        ({"ok_s": None, "err_s": 60, "dead_s": None}, ["OK", "DEAD", "ACK", "NEW"]),
        ({"ok_s": 60, "err_s": 60, "dead_s": 60}, ["ACK", "NEW"]),
    ],
)
def test_retention_by_state_is_a_setting(make_quiet: Make, retention: dict[str, Any], left: list[str]) -> None:
    quiet = make_quiet(queue={"retention": retention})
    one_of_each(quiet)
    shift(120, quiet)
    quiet.queue.janitor().clean()
    assert states(quiet.database) == left


def test_age_counts_from_the_end_not_from_the_sending(make_quiet: Make) -> None:
    quiet = make_quiet(queue={"retention": {"ok_s": 100}})
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice_many("work", "DO", range(2))
    shift(1_000, quiet)
    inbox.finish(inbox.claim())
    quiet.queue.janitor().clean()
    assert states(quiet.database) == ["OK", "NEW"]
    shift(101, quiet)
    quiet.queue.janitor().clean()
    assert states(quiet.database) == ["NEW"]


def test_a_number_is_never_given_twice(make_quiet: Make) -> None:
    """Whoever follows the queue by number would miss the second message that has it. So the newest is kept."""
    quiet = make_quiet(queue={"retention": {"ok_s": 100}})
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    outbox.notice_many("work", "DO", range(3))
    claimed = inbox.claim(3)
    inbox.finish(claimed)
    shift(101, quiet)
    assert quiet.queue.janitor().clean()["ok"] == 2
    sent = outbox.notice("work", "DO")
    assert quiet.queue.browser().message(sent).seq > claimed[-1].seq
    assert quiet.queue.janitor().clean()["ok"] == 1


def test_an_old_one_behind_young_ones_is_found(make_quiet: Make) -> None:
    """A message that ended early is deleted though older ones are kept."""
    quiet = make_quiet(queue={"retention": {"ok_s": 100}})
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice_many("work", "DO", range(3))
    first, second, third = inbox.claim(3)
    inbox.finish(second)
    shift(101, quiet)
    inbox.finish(first)
    quiet.queue.janitor().clean()
    assert [row["id"] for row in rows(quiet.database, "message")] == [first.id, third.id]


def test_many_are_deleted_in_several_portions(make_quiet: Make) -> None:
    quiet = make_quiet(queue={"retention": {"ok_s": 100}})
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    count = 2 * MOST_PER_COMMIT + 1
    outbox.notice_many("work", "DO", range(count))
    inbox.finish(inbox.claim(count))
    kept = outbox.notice("work", "DO")
    shift(101, quiet)
    assert quiet.queue.janitor().clean()["ok"] == count
    assert [row["id"] for row in rows(quiet.database, "message")] == [kept]
    portions = [json.loads(event["data"]) for event in events(quiet.database, EventKind.MESSAGES_CLEANED)]
    assert len(portions) == 3


def test_nothing_to_clean_leaves_no_event(quiet: Quiet) -> None:
    one_of_each(quiet)
    before = rows(quiet.database, "event")
    assert set(quiet.queue.janitor().clean().values()) == {0}
    assert rows(quiet.database, "event") == before


def test_old_events_are_forgotten(make_quiet: Make) -> None:
    quiet = make_quiet(queue={"retention": {"event_s": 100}})
    quiet.queue.inbox("work")
    operator = quiet.queue.operator("ada")
    operator.send("work", "DO", 1, "old")
    shift(101, quiet)
    operator.send("work", "DO", 1, "young")
    assert quiet.queue.janitor().clean()["events"] == 1
    assert [event["why"] for event in rows(quiet.database, "event")] == ["young"]


def test_rows_of_ended_processes_are_forgotten_when_settled(make_quiet: Make) -> None:
    living, stopped, settled, unsettled = (make_quiet() for _ in range(4))
    stopped.process.stop()
    let_die(settled, living)
    living.caretaker.free_the_dead()
    by_hand(
        living.database, "update process set state = 'dead', is_settled = 0 where id = :id", id=unsettled.process.id
    )
    shift(2 * DAY_S, living)
    living.process.renew()
    living.queue.janitor().clean()
    assert {row["id"] for row in rows(living.database, "process")} == {living.process.id, unsettled.process.id}


def test_the_claims_of_a_forgotten_process_are_freed(make_quiet: Make) -> None:
    living, stopped = make_quiet(), make_quiet()
    inbox = stopped.queue.inbox("work")
    living.queue.outbox("me").notice("work", "DO")
    inbox.claim()
    stopped.process.stop()
    shift(2 * DAY_S, living)
    living.process.renew()
    living.queue.janitor().clean()
    living.hold_lease()
    assert living.caretaker.free_the_dead() == 1
    assert states(living.database) == ["NEW"]


def test_two_at_once_share_the_work(make_quiet: Make) -> None:
    quiet, other = make_quiet(queue={"retention": {"ok_s": 100}}), make_quiet(queue={"retention": {"ok_s": 100}})
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice_many("work", "DO", range(100))
    inbox.finish(inbox.claim(100))
    quiet.queue.outbox("me").notice("work", "DO")
    shift(101, quiet, other)
    done = [box.queue.janitor().clean()["ok"] for box in (quiet, other)]
    assert done == [100, 0]
