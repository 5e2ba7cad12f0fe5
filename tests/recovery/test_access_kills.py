"""A process dies by SIGKILL between the acts of a request, or of a notification; another goes on; nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.recovery.stage import ROOT
from tests.support.leases import LONG_LEASE
from tests.support.receivers import Hook, webhook
from tests.support.tables import events, rows

import towpath
from towpath.core.crash import CrashPoint as P
from towpath.runtime import Runtime
from towpath.testing.processes import ChildProcess
from towpath.testing.queue_ledger import entries

REQUEST_POINTS = (P.REQUEST_TAKEN, P.REQUEST_MADE, P.REQUEST_ANSWERED)
NOTICE_POINTS = (P.NOTICES_BEFORE_COMMIT, P.NOTICES_AFTER_COMMIT)
ACCESS_POINTS = frozenset((*REQUEST_POINTS, *NOTICE_POINTS, P.NOTIFICATION_DELIVERED))
IN_THE_CHANGE = (P.OPERATE_BEFORE_COMMIT, P.OPERATE_AFTER_COMMIT)

SECTIONS: dict[str, Any] = {
    "queue": {"poll_s": 0.2, "caretaker_s": 0.05},
    "process": LONG_LEASE,
}

Run = Callable[..., ChildProcess]


@pytest.fixture
def taken() -> Iterator[Hook]:
    with webhook() as hook:
        yield hook


@pytest.fixture
def sections(database_settings: dict[str, Any], taken: Hook) -> dict[str, Any]:
    target = {"name": "ops", "url": taken.url, "secret": "a secret of the test"}
    return {**SECTIONS, "database": database_settings, "notify": {"webhooks": [target], "window_s": 0.05}}


@pytest.fixture
def runtime(sections: dict[str, Any]) -> Iterator[Runtime]:
    """Claims nothing, so it has no process row and frees nobody."""
    with towpath.connect(**sections) as made:
        yield made


@pytest.fixture
def child(sections: dict[str, Any], tmp_path: Path) -> Run:
    def make(act: str, crash_at: P | None = None) -> ChildProcess:
        told = {"act": act, "sections": sections, "journal": str(tmp_path / "journal")}
        log = tmp_path / "children.log"
        return ChildProcess("tests.recovery.access_acts", told, log=log, crash_at=crash_at, cwd=ROOT)

    return make


def trail(runtime: Runtime) -> list[tuple[str, str]]:
    return [(row["what"], row["outcome"]) for row in rows(runtime.database, "access_audit")]


def requests(runtime: Runtime) -> list[tuple[str, str, int | None, str | None]]:
    found = rows(runtime.database, "access_request")
    return [(row["key"], row["state"], row["status"], row["answer"]) for row in found]


@pytest.mark.parametrize("point", [*REQUEST_POINTS, *IN_THE_CHANGE])
def test_a_request_is_done_once_in_spite_of_a_kill_at(point: P, runtime: Runtime, child: Run, tmp_path: Path) -> None:
    """Asked again with the same key, it is done if and only if it was not."""
    with child("add_user", point) as killed:
        killed.wait_killed()
    is_made = point not in (P.REQUEST_TAKEN, P.OPERATE_BEFORE_COMMIT)
    assert [user.name for user in runtime.access.users()] == (["bob"] if is_made else [])
    assert trail(runtime) == [("add user", "done" if is_made else "begun")]
    [left] = requests(runtime)
    assert left[1] == ("answered" if point is P.REQUEST_ANSWERED else "made" if is_made else "running")
    with child("add_user") as successor:
        successor.wait_done()
    assert [user.name for user in runtime.access.users()] == ["bob"]
    assert requests(runtime) == [("the-key", "answered", 201, "bob")]
    [answer] = [entry for entry in entries(tmp_path / "journal") if entry["did"] == "answered"]
    assert (answer["status"], answer["body"], answer["is_repeated"]) == (201, "bob", is_made)
    # Of what was begun and never made a row is left that says so; what was made has one row.
    assert trail(runtime) == ([] if is_made else [("add user", "begun")]) + [("add user", "done")]
    assert len(events(runtime.database, "user_changed_by_hand")) == 1


@pytest.mark.parametrize("point", NOTICE_POINTS)
def test_notices_are_handed_over_once_in_spite_of_a_kill_at(
    point: P, runtime: Runtime, child: Run, tmp_path: Path, taken: Hook
) -> None:
    """If they were marked and sent in two transactions, a message would be lost, or sent twice under two ids."""
    with child("hand_over", point) as killed:
        killed.wait_killed()
    is_done = point is P.NOTICES_AFTER_COMMIT
    assert [each.state for each in runtime.notify.page()] == ["handed" if is_done else "waiting"] * 3
    assert len(rows(runtime.database, "message")) == int(is_done)
    with child("hand_over") as successor:
        successor.wait_done()
    [message] = rows(runtime.database, "message")
    assert [each.state for each in runtime.notify.page()] == ["handed"] * 3
    with child("deliver") as delivering:
        delivering.wait_done(90)
    assert [post.headers["webhook-id"] for post in taken.posts] == [message["id"]]
    assert len(events(runtime.database, "group_found")) == 3


def test_a_notification_whose_sender_died_comes_again_under_the_same_id(
    runtime: Runtime, child: Run, taken: Hook
) -> None:
    """The receiver has it, and nobody could write that down: it is delivered once more, and can be told."""
    with child("hand_over") as telling:
        telling.wait_done()
    with child("deliver", P.NOTIFICATION_DELIVERED) as killed:
        killed.wait_killed()
    [message] = rows(runtime.database, "message")
    assert message["state"] == "ACK"
    assert len(taken.posts) == 1
    with child("deliver") as successor:
        successor.wait_done(90)
    assert [row["state"] for row in rows(runtime.database, "message")] == ["OK"]
    assert [post.headers["webhook-id"] for post in taken.posts] == [message["id"]] * 2
    assert taken.posts[0].body == taken.posts[1].body
    assert len(events(runtime.database, "notification_sent")) == 1


def test_every_point_of_access_and_notifications_is_here() -> None:
    assert {point for point in P if point.startswith(("request_", "notices_", "notification_"))} == ACCESS_POINTS
