"""The asynchronous inbox: never more at once than it has workers; the rest waits in the queue."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from tests.support.tables import states

from towpath.errors import BadValue, TowpathError
from towpath.queue import Message
from towpath.queue.consumers import AsynchronousInbox
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until


class Gate:
    """A handler that holds its messages until it is opened, and counts how many it holds at most."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.holding = 0
        self.most = 0
        self.entered = 0
        self._lock = threading.Lock()

    def __call__(self, message: Message) -> None:
        with self._lock:
            self.holding += 1
            self.entered += 1
            self.most = max(self.most, self.holding)
        assert self.opened.wait(30)
        with self._lock:
            self.holding -= 1


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


@pytest.fixture
def inbox(runtime: Runtime, gate: Gate) -> Iterator[AsynchronousInbox]:
    made = runtime.queue.asynchronous("work", workers=3)
    made.on("DO")(gate)
    yield made
    gate.opened.set()
    made.stop()


def test_no_more_than_its_workers_and_the_rest_stays_new(
    runtime: Runtime, inbox: AsynchronousInbox, gate: Gate
) -> None:
    runtime.queue.outbox("me").notice_many("work", "DO", range(10))
    inbox.start()
    wait_until(lambda: gate.holding == 3)
    assert inbox.busy == 3
    assert sorted(states(runtime.database)) == ["ACK"] * 3 + ["NEW"] * 7
    gate.opened.set()
    wait_until(lambda: states(runtime.database) == ["OK"] * 10, what="the end of all ten")
    assert (gate.most, gate.entered) == (3, 10)
    wait_until(lambda: inbox.busy == 0)


def test_what_waits_can_be_taken_by_another_process(
    make_runtime: Callable[..., Runtime], runtime: Runtime, inbox: AsynchronousInbox, gate: Gate
) -> None:
    runtime.queue.outbox("me").notice_many("work", "DO", range(5))
    inbox.start()
    wait_until(lambda: gate.holding == 3)
    assert [message.payload for message in make_runtime().queue.inbox("work").claim(10)] == [3, 4]


def test_a_free_worker_takes_the_next_while_another_is_busy(runtime: Runtime) -> None:
    held, quick = threading.Event(), list[int]()
    inbox = runtime.queue.asynchronous("work", workers=2)
    inbox.on("HOLD")(lambda message: held.wait(30))
    inbox.on("QUICK")(lambda message: quick.append(message.payload))
    inbox.start()
    try:
        outbox = runtime.queue.outbox("me")
        outbox.notice("work", "HOLD")
        outbox.notice_many("work", "QUICK", range(20))
        wait_until(lambda: len(quick) == 20)
        assert quick == list(range(20))
    finally:
        held.set()
        inbox.stop()


def test_stop_waits_for_what_was_begun_and_begins_nothing_more(
    runtime: Runtime, inbox: AsynchronousInbox, gate: Gate
) -> None:
    runtime.queue.outbox("me").notice_many("work", "DO", range(6))
    inbox.start()
    wait_until(lambda: gate.holding == 3)
    with pytest.raises(TowpathError, match="inbox:work"):
        inbox.stop(timeout_s=0.05)
    gate.opened.set()
    inbox.stop()
    assert sorted(states(runtime.database)) == ["NEW"] * 3 + ["OK"] * 3
    assert (gate.entered, gate.holding) == (3, 0)


@pytest.mark.parametrize("workers", [0, -1, 257])
def test_workers_are_limited(runtime: Runtime, workers: int) -> None:
    with pytest.raises(BadValue, match=f"workers={workers} "):
        runtime.queue.asynchronous("work", workers=workers)
