"""Sending: what is written, when it is seen, and what is refused without a trace."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.quiet import Quiet
from tests.support.sweep import sweep
from tests.support.tables import message_row, rows

from towpath.errors import BadName, BadPayload, BadValue, DuplicateMessage, Refused, UnknownInbox
from towpath.queue.outbox import MOST_PER_COMMIT
from towpath.queue.payload import new_id

TABLES = ("message", "inbox", "event")


def everything(quiet: Quiet) -> list[list[dict[str, Any]]]:
    return [rows(quiet.database, table) for table in TABLES]


def test_a_notice_is_written_whole(quiet: Quiet) -> None:
    quiet.queue.inbox("work")
    before = quiet.database.now()
    related = new_id()
    sent = quiet.queue.outbox("me").notice(
        "work", "DO", {"a": ["ü", 1]}, headers={"h": "x"}, delay_s=5, ttl_s=7.5, related_id=related
    )
    after = quiet.database.now()
    [row] = rows(quiet.database, "message")
    created = row["created_at"]
    assert before <= created <= after
    assert json.loads(row.pop("payload")) == {"a": ["ü", 1]}
    assert json.loads(row.pop("headers")) == {"h": "x"}
    assert row == {
        "seq": row["seq"],
        "id": sent,
        "related_id": related,
        "audit_id": None,
        "inbox": "work",
        "reply_to": None,
        "function": "DO",
        "state": "NEW",
        "owner": None,
        "owner_tick": None,
        "attempts": 0,
        "give_backs": 0,
        "deliver_after": created + 5_000_000,
        "ttl_s": 7.5,
        "expires_at": created + 12_500_000,
        "reason": None,
        "created_at": created,
        "updated_at": created,
    }


def test_a_request_says_where_the_answer_goes(quiet: Quiet) -> None:
    quiet.queue.inbox("work")
    sent = quiet.queue.outbox("me").send("work", "DO")
    row = message_row(quiet.database, sent)
    assert (row["reply_to"], row["payload"], row["headers"]) == ("me//reply", "null", "{}")
    assert [row["name"] for row in rows(quiet.database, "inbox")] == ["me//reply", "work"]


def test_rolled_back_means_not_sent_and_nobody_woken(quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet.queue.inbox("work")
    before = everything(quiet)
    rung: list[str] = []
    monkeypatch.setattr(quiet.database.wakeups, "ring", rung.extend)
    outbox = quiet.queue.outbox("me")
    with pytest.raises(ZeroDivisionError), quiet.database.transaction() as tx:
        outbox.send("work", "DO", 1, tx=tx)
        outbox.notice("work", "DO", 2, tx=tx)
        outbox.send_many("work", "DO", [3, 4], tx=tx)
        outbox.notice_many("work", "DO", [5, 6], tx=tx)
        raise ZeroDivisionError
    assert everything(quiet) == before
    assert rung == []
    # The outbox must not believe that its reply inbox was made.
    outbox.send("work", "DO", 7)
    assert [row["name"] for row in rows(quiet.database, "inbox")] == ["me//reply", "work"]


def test_committed_means_sent_and_woken(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    wakeup = quiet.database.wakeups.hang("work")
    outbox = quiet.queue.outbox("me")
    with quiet.database.transaction() as tx:
        ids = [outbox.send("work", "DO", 1, tx=tx), outbox.notice("work", "DO", 2, tx=tx)]
        ids += outbox.send_many("work", "DO", [3, 4], tx=tx)
        ids += outbox.notice_many("work", "DO", [5, 6], tx=tx)
    assert wakeup.wait(10)
    claimed = inbox.claim(10)
    assert [message.id for message in claimed] == ids
    assert [message.payload for message in claimed] == [1, 2, 3, 4, 5, 6]
    assert [message.expects_answer for message in claimed] == [True, False, True, True, False, False]


def test_sending_outside_a_transaction_wakes_too(quiet: Quiet) -> None:
    quiet.queue.inbox("work")
    wakeup = quiet.database.wakeups.hang("work")
    outbox = quiet.queue.outbox("me")
    for send in (outbox.notice, outbox.send):
        wakeup.clear()
        send("work", "DO")
        assert wakeup.wait(10)
    wakeup.clear()
    outbox.notice_many("work", "DO", [1])
    assert wakeup.wait(10)


def test_the_same_id_is_sent_once(quiet: Quiet) -> None:
    quiet.queue.inbox("work")
    quiet.queue.inbox("other")
    outbox = quiet.queue.outbox("me")
    chosen = new_id()
    assert outbox.send("work", "DO", "first", message_id=chosen) == chosen
    before = everything(quiet)
    for send in (outbox.send, outbox.notice):
        with pytest.raises(DuplicateMessage, match=chosen):
            send("other", "ELSE", "second", message_id=chosen.upper())
    assert everything(quiet) == before


def test_a_duplicate_does_not_spoil_the_callers_transaction(quiet: Quiet) -> None:
    quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    chosen = outbox.notice("work", "DO", "first")
    with quiet.database.transaction() as tx:
        with pytest.raises(DuplicateMessage):
            outbox.notice("work", "DO", "second", message_id=chosen, tx=tx)
        outbox.notice("work", "DO", "third", tx=tx)
    assert [row["payload"] for row in rows(quiet.database, "message")] == ['"first"', '"third"']


@pytest.mark.parametrize("kind", ["send_many", "notice_many"])
def test_many_keep_their_order_over_several_commits(quiet: Quiet, kind: str) -> None:
    quiet.queue.inbox("work")
    count = 2 * MOST_PER_COMMIT + 1
    ids = getattr(quiet.queue.outbox("me"), kind)("work", "DO", range(count))
    found = rows(quiet.database, "message")
    assert [row["id"] for row in found] == ids
    assert [row["payload"] for row in found] == [str(n) for n in range(count)]
    assert {row["reply_to"] for row in found} == {"me//reply" if kind == "send_many" else None}
    # Each portion has the time of its own transaction.
    assert len({row["created_at"] for row in found}) == 3


def test_many_large_ones_go_in_portions_by_size(quiet: Quiet) -> None:
    quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice_many("work", "DO", ["x" * 1_000_000] * 11)
    found = rows(quiet.database, "message")
    assert len(found) == 11
    assert len({row["created_at"] for row in found}) == 3


def test_many_of_nothing(quiet: Quiet) -> None:
    quiet.queue.inbox("work")
    assert quiet.queue.outbox("me").notice_many("work", "DO", []) == []
    assert rows(quiet.database, "message") == []


def test_many_is_all_or_nothing_when_one_payload_is_bad(quiet: Quiet) -> None:
    """A refusal says that nothing was written; that has to hold also when the bad one comes late."""
    quiet.queue.inbox("work")
    with pytest.raises(BadPayload):
        quiet.queue.outbox("me").notice_many("work", "DO", [*range(MOST_PER_COMMIT), object()])
    assert rows(quiet.database, "message") == []


BAD: list[tuple[str, dict[str, Any], type[Refused]]] = [
    ("unknown inbox", {"inbox": "wrok"}, UnknownInbox),
    ("no inbox name", {"inbox": ""}, BadName),
    ("empty function", {"function": ""}, BadName),
    ("function with space", {"function": "DO IT"}, BadName),
    ("not json", {"payload": object()}, BadPayload),
    ("nan", {"payload": float("nan")}, BadPayload),
    ("nul", {"payload": "a\x00"}, BadPayload),
    ("surrogate", {"payload": "\ud800"}, BadPayload),
    ("too large", {"payload": "x" * (1 << 20)}, BadPayload),
    ("headers not json", {"headers": {"a": {1}}}, BadPayload),
    ("headers with nul", {"headers": {"a": "\x00"}}, BadPayload),
    ("header name with nul", {"headers": {"a\x00": 1}}, BadName),
    ("no time to live", {"ttl_s": 0}, BadValue),
    ("negative delay", {"delay_s": -1}, BadValue),
    ("endless delay", {"delay_s": float("inf")}, BadValue),
    ("id that is none", {"message_id": "7"}, Refused),
    ("related id that is none", {"related_id": "7"}, Refused),
]


@sweep(("changes", "error"), [case[1:] for case in BAD])
@sweep("kind", ["send", "notice"])
@sweep("own", [True, False])
def test_refused_without_a_trace(quiet: Quiet, kind: str, own: bool, changes: dict[str, Any], error: type) -> None:
    quiet.queue.inbox("work")
    before = everything(quiet)
    outbox = quiet.queue.outbox("me")
    arguments = {"inbox": "work", "function": "DO", "payload": None, **changes}
    if own:
        with pytest.raises(error):
            getattr(outbox, kind)(**arguments)
    else:
        with quiet.database.transaction() as tx, pytest.raises(error):
            getattr(outbox, kind)(**arguments, tx=tx)
    assert everything(quiet) == before


def test_unknown_inbox_says_which_are_known(quiet: Quiet) -> None:
    for name in ("orders", "invoices"):
        quiet.queue.inbox(name)
    with pytest.raises(UnknownInbox) as caught:
        quiet.queue.outbox("me").notice("ordres", "DO")
    assert caught.value.known == ["invoices", "orders"]


def test_largest_payload_is_a_setting(make_quiet: Any) -> None:
    quiet = make_quiet(queue={"max_payload_bytes": 100})
    quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    outbox.notice("work", "DO", "x" * 98)
    with pytest.raises(BadPayload, match=r"101 .*100"):
        outbox.notice("work", "DO", "x" * 99)
    with pytest.raises(BadPayload, match="header"):
        outbox.notice("work", "DO", headers={"h": "x" * 99})


@pytest.mark.parametrize("depth", [150, 400, 1_001, 3_000])
def test_nested_payload_is_stored_or_refused(quiet: Quiet, depth: int) -> None:
    """Never an error of the database, which has limits of its own."""
    inbox = quiet.queue.inbox("work")
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    try:
        quiet.queue.outbox("me").notice("work", "DO", value)
    except BadPayload:
        assert rows(quiet.database, "message") == []
    else:
        assert inbox.claim()[0].payload == value
