"""Requests and their answers: waited for, polled, late, after a restart, or never to come."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.quiet import Quiet
from tests.support.tables import events, message_row, rows

from towpath.core.events import EventKind
from towpath.errors import AnswerTimeout, ClaimLost, IllegalMove, RequestDied, UnknownMessage
from towpath.queue import Answer, MessageState
from towpath.queue.payload import new_id
from towpath.runtime import Runtime


def test_no_answer_yet(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    sent = outbox.send("work", "DO")
    assert outbox.poll(sent) is None
    inbox.claim()
    assert outbox.poll(sent) is None
    with pytest.raises(AnswerTimeout) as caught:
        outbox.wait(sent, 0.01)
    assert caught.value.message_id == sent


def test_the_answer_is_written_with_the_finish(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    sent = outbox.send("work", "DO", 20)
    [message] = inbox.claim()
    inbox.finish(message, {"sum": 42})
    request, reply = rows(quiet.database, "message")
    assert (request["state"], request["reason"]) == ("OK", None)
    assert {key: reply[key] for key in ("related_id", "audit_id", "inbox", "reply_to", "state", "payload")} == {
        "related_id": sent,
        "audit_id": sent,
        "inbox": "me//reply",
        "reply_to": None,
        "state": "NEW",
        "payload": '{"sum":42}',
    }
    assert reply["ttl_s"] == quiet.runtime.settings.queue.reply_ttl_s
    assert outbox.poll(sent) == Answer(MessageState.OK, {"sum": 42}, sent)
    assert message_row(quiet.database, reply["id"])["state"] == "OK"


def test_an_answer_can_be_read_again(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    sent = outbox.send("work", "DO")
    inbox.finish(inbox.claim(), 1)
    first = outbox.poll(sent)
    before = rows(quiet.database, "message")
    assert outbox.poll(sent) == first == outbox.wait(sent, 1)
    assert rows(quiet.database, "message") == before


def test_a_failure_is_an_answer_too(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    sent = outbox.send("work", "DO")
    inbox.fail(inbox.claim(), "broke")
    answer = outbox.wait(sent, 5)
    assert answer == Answer(MessageState.ERR, {"error": "broke"}, sent)
    assert not answer.is_ok


def test_answers_do_not_mix(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox, other = quiet.queue.outbox("me"), quiet.queue.outbox("you")
    sent = [outbox.send("work", "DO", 0), other.send("work", "DO", 1), outbox.send("work", "DO", 2)]
    for message in reversed(inbox.claim(3)):
        inbox.finish(message, message.payload * 10)
    answers = [box.wait(one, 5).payload for box, one in zip((outbox, other, outbox), sent, strict=True)]
    assert answers == [0, 10, 20]


def test_the_outcome_of_a_notice_can_be_polled(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    sent = outbox.notice("work", "DO")
    assert outbox.poll(sent) is None
    inbox.finish(inbox.claim(), "thrown away")
    assert outbox.poll(sent) == Answer(MessageState.OK, None, sent)
    assert len(rows(quiet.database, "message")) == 1


@pytest.mark.parametrize("message_id", ["01900000-0000-7000-8000-000000000001", "nonsense"])
def test_what_was_never_sent_gets_no_answer(quiet: Quiet, message_id: str) -> None:
    with pytest.raises((RequestDied, UnknownMessage)):
        quiet.queue.outbox("me").wait(message_id, 5)


def test_waiting_goes_on_after_a_restart(make_runtime: Callable[..., Runtime]) -> None:
    """Only the id is kept; another process waits for it under the same name."""
    first = make_runtime()
    inbox = first.queue.inbox("work")
    sent = first.queue.outbox("me").send("work", "DO", 20)
    first.close()
    second, worker = make_runtime(), make_runtime()
    got: list[Answer] = []
    waiting = threading.Thread(target=lambda: got.append(second.queue.outbox("me").wait(sent, 20)))
    waiting.start()
    inbox = worker.queue.inbox("work")
    inbox.finish(inbox.claim(), 42)
    waiting.join(20)
    assert got == [Answer(MessageState.OK, 42, sent)]


def test_two_who_wait_for_the_same_both_get_it(runtime: Runtime) -> None:
    inbox = runtime.queue.inbox("work")
    outbox = runtime.queue.outbox("me")
    sent = outbox.send("work", "DO")
    got: list[Any] = []
    waiting = [threading.Thread(target=lambda: got.append(outbox.wait(sent, 20).payload)) for _ in range(4)]
    for thread in waiting:
        thread.start()
    inbox.finish(inbox.claim(), "for all")
    for thread in waiting:
        thread.join(20)
    assert got == ["for all"] * 4


def test_a_late_asker_gets_the_answer(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    sent = outbox.send("work", "DO")
    with pytest.raises(AnswerTimeout):
        outbox.wait(sent, 0.01)
    inbox.finish(inbox.claim(), "late")
    assert outbox.wait(sent, 5).payload == "late"


def test_request_sends_and_waits(runtime: Runtime) -> None:
    worker = runtime.queue.synchronous("work")
    worker.on("DOUBLE")(lambda message: message.payload * 2)
    worker.start()
    try:
        answer = runtime.queue.outbox("me").request("work", "DOUBLE", 21, timeout_s=20, headers={"h": 1})
    finally:
        worker.stop()
    assert (answer.is_ok, answer.payload) == (True, 42)


def test_request_that_nobody_takes(quiet: Quiet) -> None:
    quiet.queue.inbox("work")
    with pytest.raises(AnswerTimeout) as caught:
        quiet.queue.outbox("me").request("work", "DO", timeout_s=0.01)
    assert message_row(quiet.database, caught.value.message_id)["state"] == "NEW"


def test_flag_bad_ends_what_is_being_worked_on(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    sent = outbox.send("work", "DO")
    with pytest.raises(IllegalMove):
        outbox.flag_bad(sent, "too early")
    [message] = inbox.claim()
    outbox.flag_bad(sent, "makes no sense")
    assert outbox.wait(sent, 5) == Answer(MessageState.ERR, {"error": "makes no sense"}, sent)
    assert "me: makes no sense" in str(message_row(quiet.database, sent)["reason"])
    with pytest.raises(ClaimLost):
        inbox.finish(message, "late")
    [event] = events(quiet.database, EventKind.MESSAGE_FLAGGED)
    assert (event["subject"], event["who"], event["why"]) == (sent, "me", "makes no sense")


@pytest.mark.parametrize("claimed", [False, True])
def test_flag_dead_takes_a_request_back(quiet: Quiet, claimed: bool) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    sent = outbox.send("work", "DO")
    messages = inbox.claim() if claimed else []
    outbox.flag_dead(sent, "not needed")
    with pytest.raises(RequestDied, match="me: not needed"):
        outbox.poll(sent)
    assert inbox.claim() == []
    for message in messages:
        with pytest.raises(ClaimLost):
            inbox.finish(message)
    assert len(events(quiet.database, EventKind.MESSAGE_FLAGGED)) == 1


@pytest.mark.parametrize("flag", ["flag_bad", "flag_dead"])
def test_flagging_what_is_not_there(quiet: Quiet, flag: str) -> None:
    with pytest.raises(UnknownMessage):
        getattr(quiet.queue.outbox("me"), flag)(new_id(), "why")
    assert rows(quiet.database, "event") == []


def test_who_waits_is_woken_when_the_request_dies(make_runtime: Callable[..., Runtime]) -> None:
    """The poll is every 60 s: only the bell can have woken it."""
    runtime = make_runtime(queue={"poll_s": 60})
    runtime.queue.inbox("work")
    outbox = runtime.queue.outbox("me")
    sent = outbox.send("work", "DO")
    told = threading.Event()

    def wait() -> None:
        with pytest.raises(RequestDied):
            outbox.wait(sent, 20)
        told.set()

    thread = threading.Thread(target=wait)
    thread.start()
    outbox.flag_dead(sent, "not needed")
    assert told.wait(10)
    thread.join(10)


def test_a_request_that_is_sent_again_waits_for_its_new_answer(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    sent = outbox.send("work", "DO")
    inbox.fail(inbox.claim(), "broke")
    assert outbox.wait(sent, 5).state is MessageState.ERR
    quiet.queue.operator("ada").set_state(sent, MessageState.NEW, "mended")
    assert outbox.poll(sent) is None
    inbox.finish(inbox.claim(), "second")
    assert outbox.wait(sent, 5) == Answer(MessageState.OK, "second", sent)
