"""Changes by hand: each leaves an event with who, what and why, in the same transaction, or is not made."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.quiet import Quiet
from tests.support.sweep import sweep
from tests.support.tables import by_hand, message_row, rows

from towpath.errors import (
    BadName,
    BadPayload,
    ChangedMeanwhile,
    DatabaseError,
    IllegalMove,
    NoReplyExpected,
    Refused,
    UnknownInbox,
    UnknownMessage,
)
from towpath.queue import Inbox, MessageState
from towpath.queue.operator import Operator
from towpath.queue.payload import new_id


class Scene:
    def __init__(self, quiet: Quiet) -> None:
        self.quiet = quiet
        self.inbox: Inbox = quiet.queue.inbox("work")
        self.outbox = quiet.queue.outbox("me")
        self.asked = self.outbox.send("work", "DO", {"n": 1}, headers={"h": 1})
        self.operator: Operator = quiet.queue.operator("ada")

    def everything(self) -> list[list[dict[str, Any]]]:
        return [rows(self.quiet.database, table) for table in ("message", "event", "inbox")]

    def events(self) -> list[dict[str, Any]]:
        return rows(self.quiet.database, "event")


@pytest.fixture
def scene(quiet: Quiet) -> Scene:
    return Scene(quiet)


CHANGES: dict[str, tuple[str, Callable[[Scene], Any], dict[str, Any]]] = {
    "send": (
        "message_sent_by_hand",
        lambda s: s.operator.send("work", "DO", 1, "because"),
        {"inbox": "work", "function": "DO"},
    ),
    "send with reply": (
        "message_sent_by_hand",
        lambda s: s.operator.send("work", "DO", 1, "because", reply=True),
        {"inbox": "work", "function": "DO"},
    ),
    "copy": (
        "message_sent_by_hand",
        lambda s: s.operator.copy(s.asked, "because", payload=2),
        {"inbox": "work", "function": "DO", "copy_of": ...},
    ),
    "reply": (
        "message_answered_by_hand",
        lambda s: s.operator.reply(s.asked, "answer", "because"),
        {"was": "NEW", "owner": None},
    ),
    "edit": (
        "message_edited",
        lambda s: s.operator.edit(s.asked, "because", payload={"n": 2}),
        {"payload_before": '{"n":1}', "headers_before": '{"h":1}'},
    ),
    "set state": (
        "message_moved_by_hand",
        lambda s: s.operator.set_state(s.asked, MessageState.DEAD, "because"),
        {"was": "NEW", "now": "DEAD", "owner": None},
    ),
}


@pytest.mark.parametrize(("kind", "change", "data"), CHANGES.values(), ids=CHANGES.keys())
def test_every_change_leaves_an_event(scene: Scene, kind: str, change: Callable[[Scene], Any], data: Any) -> None:
    made = change(scene)
    [event] = scene.events()
    assert (event["kind"], event["who"], event["why"]) == (kind, "ada", "because")
    assert event["subject"] == (made or scene.asked)
    assert json.loads(event["data"]) == {**data, **({"copy_of": scene.asked} if "copy_of" in data else {})}


@pytest.mark.parametrize("change", [case[1] for case in CHANGES.values()], ids=CHANGES.keys())
def test_without_its_event_a_change_is_not_made(scene: Scene, change: Callable[[Scene], Any]) -> None:
    if scene.quiet.database.dialect == "sqlite":
        by_hand(
            scene.quiet.database,
            "create trigger no_events before insert on event begin select raise(abort, 'no room'); end",
        )
    else:
        by_hand(scene.quiet.database, "alter table event add constraint no_events check (kind = '')")
    before = scene.everything()
    with pytest.raises(DatabaseError, match=r"no room|no_events"):
        change(scene)
    assert scene.everything() == before


@pytest.mark.parametrize("change", [case[1] for case in CHANGES.values()], ids=CHANGES.keys())
def test_subscribers_hear_of_it_after_the_commit(scene: Scene, change: Callable[[Scene], Any]) -> None:
    seen: list[int] = []
    scene.quiet.runtime.events.subscribe(lambda event: seen.append(len(scene.events())))
    change(scene)
    assert seen == [1]


def test_a_message_sent_by_hand(scene: Scene) -> None:
    sent = scene.operator.send("work", "DO", {"x": 1}, "test", headers={"h": 2}, delay_s=5, ttl_s=9, reply=True)
    row = message_row(scene.quiet.database, sent)
    assert (row["reply_to"], row["payload"], row["headers"], row["ttl_s"]) == (
        "operator//reply",
        '{"x":1}',
        '{"h":2}',
        9,
    )
    assert row["deliver_after"] == row["created_at"] + 5_000_000


@sweep(
    ("act", "error"),
    [
        (lambda s: s.operator.send("wrok", "DO", 1, "why"), UnknownInbox),
        (lambda s: s.operator.send("work", "", 1, "why"), BadName),
        (lambda s: s.operator.send("work", "DO", object(), "why"), BadPayload),
        (lambda s: s.operator.reply(new_id(), 1, "why"), UnknownMessage),
        (lambda s: s.operator.reply("nonsense", 1, "why"), UnknownMessage),
        (lambda s: s.operator.reply(s.asked, float("nan"), "why"), BadPayload),
        (lambda s: s.operator.edit(new_id(), "why", payload=1), UnknownMessage),
        (lambda s: s.operator.edit(s.asked, "why", payload=object()), BadPayload),
        (lambda s: s.operator.edit(s.asked, "why", headers={"a\x00": 1}), BadName),
        (lambda s: s.operator.set_state(new_id(), MessageState.DEAD, "why"), UnknownMessage),
        (lambda s: s.operator.set_state(s.asked, MessageState.OK, "why"), IllegalMove),
    ],
)
def test_refused_without_a_trace(scene: Scene, act: Callable[[Scene], Any], error: type[Refused]) -> None:
    before = scene.everything()
    with pytest.raises(error):
        act(scene)
    assert scene.everything() == before


@pytest.mark.parametrize("text", ["nul \x00", "surrogate \ud800"])
def test_reasons_that_no_database_can_hold(scene: Scene, text: str) -> None:
    """Either refused with a typed error and no trace, or written in another form; never an error of the driver."""
    before = scene.everything()
    try:
        scene.operator.set_state(scene.asked, MessageState.DEAD, text)
    except Refused:
        assert scene.everything() == before
    else:
        [event] = scene.events()
        assert event["why"].startswith(text.split()[0])


def test_a_notice_cannot_be_answered(scene: Scene) -> None:
    sent = scene.outbox.notice("work", "DO")
    before = scene.everything()
    with pytest.raises(NoReplyExpected):
        scene.operator.reply(sent, 1, "why")
    assert scene.everything() == before


@pytest.mark.parametrize("who", ["", "  "])
def test_nobody_is_no_person(quiet: Quiet, who: str) -> None:
    with pytest.raises(BadName):
        quiet.queue.operator(who)


def test_an_edit_changes_only_what_it_names(scene: Scene) -> None:
    database = scene.quiet.database
    first = message_row(database, scene.asked)
    scene.operator.edit(scene.asked, "why", payload=[1])
    second = message_row(database, scene.asked)
    assert second == {**first, "payload": "[1]", "updated_at": second["updated_at"]}
    scene.operator.edit(scene.asked, "why", headers={"k": 2})
    third = message_row(database, scene.asked)
    assert third == {**second, "headers": '{"k":2}', "updated_at": third["updated_at"]}


def test_a_payload_can_be_edited_to_null(scene: Scene) -> None:
    scene.operator.edit(scene.asked, "why", payload=None)
    assert message_row(scene.quiet.database, scene.asked)["payload"] == "null"


def test_an_edit_is_refused_when_someone_was_faster(scene: Scene) -> None:
    seen = scene.quiet.queue.browser().message(scene.asked)
    scene.quiet.queue.operator("bob").edit(scene.asked, "first", payload="of bob")
    before = scene.everything()
    with pytest.raises(ChangedMeanwhile):
        scene.operator.edit(scene.asked, "second", payload="of ada", seen=seen)
    assert scene.everything() == before
    assert message_row(scene.quiet.database, scene.asked)["payload"] == '"of bob"'


def test_an_edit_is_refused_when_it_was_claimed_and_given_back(scene: Scene) -> None:
    seen = scene.quiet.queue.browser().message(scene.asked)
    scene.inbox.release(scene.inbox.claim())
    with pytest.raises(ChangedMeanwhile):
        scene.operator.edit(scene.asked, "why", payload=1, seen=seen)


def test_what_waits_again_wakes_its_inbox(scene: Scene) -> None:
    scene.inbox.fail(scene.inbox.claim(), "broke")
    wakeup = scene.quiet.database.wakeups.hang("work")
    wakeup.clear()
    scene.operator.set_state(scene.asked, MessageState.NEW, "mended")
    assert wakeup.wait(10)
