"""The synchronous inbox: one at a time, in order, abortable."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from tests.support.tables import events, message_row, rows, states

from towpath.core.events import EventKind
from towpath.queue import Message, MessageState, is_aborted
from towpath.queue.consumers import SynchronousInbox
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until


@pytest.fixture
def inbox(runtime: Runtime) -> Iterator[SynchronousInbox]:
    made = runtime.queue.synchronous("work")
    yield made
    made.stop()


def test_one_at_a_time_in_order(runtime: Runtime, inbox: SynchronousInbox) -> None:
    got: list[int] = []
    at_once: list[int] = []
    busy = threading.Semaphore(1)

    @inbox.on("DO")
    def handle(message: Message) -> None:
        assert busy.acquire(blocking=False)
        # The rest of the inbox waits where others can take it: not more than a few are claimed ahead.
        at_once.append(states(runtime.database).count("ACK"))
        got.append(message.payload)
        busy.release()

    runtime.queue.outbox("me").notice_many("work", "DO", range(30))
    inbox.start()
    wait_until(lambda: len(got) == 30)
    wait_until(lambda: states(runtime.database) == ["OK"] * 30)
    assert got == list(range(30))
    assert set(at_once) == {1}


class Held:
    """A handler that holds its message until told, and says whether it was aborted."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.aborted: bool | None = None

    def __call__(self, message: Message) -> str:
        self.begun.set()
        assert self.go_on.wait(30)
        self.aborted = is_aborted()
        return "late result"


@pytest.mark.parametrize("kind", ["send", "notice"])
def test_abort_ends_it_as_err_and_the_late_result_is_refused(
    runtime: Runtime, inbox: SynchronousInbox, kind: str
) -> None:
    handler = Held()
    inbox.on("DO")(handler)
    inbox.start()
    outbox = runtime.queue.outbox("me")
    sent = getattr(outbox, kind)("work", "DO")
    assert handler.begun.wait(20)
    assert inbox.abort("the user pressed cancel")
    answer = outbox.wait(sent, 20)
    assert (answer.state, answer.message_id) == (MessageState.ERR, sent)
    assert answer.payload["error"].endswith("the user pressed cancel")
    row = message_row(runtime.database, sent)
    assert (row["state"], row["reason"]) == ("ERR", answer.payload["error"])
    before = rows(runtime.database, "message")
    handler.go_on.set()
    wait_until(lambda: handler.aborted is not None)
    assert handler.aborted
    inbox.stop()
    assert rows(runtime.database, "message") == before
    [event] = events(runtime.database, EventKind.MESSAGE_ABORTED)
    assert (event["subject"], event["why"], json.loads(event["data"])) == (sent, "the user pressed cancel", {})


def test_after_an_abort_the_next_message_is_handled(runtime: Runtime, inbox: SynchronousInbox) -> None:
    handler = Held()
    inbox.on("HOLD")(handler)
    inbox.on("DO")(lambda message: is_aborted())
    inbox.start()
    outbox = runtime.queue.outbox("me")
    outbox.notice("work", "HOLD")
    assert handler.begun.wait(20)
    assert inbox.abort("enough")
    handler.go_on.set()
    assert outbox.request("work", "DO", timeout_s=20).payload is False


def test_nothing_to_abort(inbox: SynchronousInbox) -> None:
    assert not inbox.abort("why not")


def test_aborting_what_an_operator_has_ended(runtime: Runtime, inbox: SynchronousInbox) -> None:
    handler = Held()
    inbox.on("DO")(handler)
    inbox.start()
    sent = runtime.queue.outbox("me").notice("work", "DO")
    assert handler.begun.wait(20)
    runtime.queue.operator("ada").set_state(sent, MessageState.DEAD, "not needed")
    before = rows(runtime.database, "message")
    assert not inbox.abort("too late")
    handler.go_on.set()
    inbox.stop()
    assert rows(runtime.database, "message") == before


def test_stop_waits_for_the_message_at_hand(runtime: Runtime, inbox: SynchronousInbox) -> None:
    handler = Held()
    inbox.on("DO")(handler)
    inbox.start()
    runtime.queue.outbox("me").notice_many("work", "DO", range(3))
    assert handler.begun.wait(20)
    stopping = threading.Thread(target=inbox.stop)
    stopping.start()
    wait_until(lambda: inbox.is_stopping)
    handler.go_on.set()
    stopping.join(20)
    assert not inbox.is_running
    assert states(runtime.database) == ["OK", "NEW", "NEW"]
