"""The demo from beginning to end."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from towpath.demo.child import Child, DemoFailed
from towpath.demo.ledger import Ledger, read_ledger
from towpath.demo.scene import CLIENT, FUNCTION, HOLD, INBOX, READY, THREADS, VICTIM, WORKERS, settings_of
from towpath.queue import MessageState
from towpath.queue.state import TERMINAL
from towpath.runtime import Runtime, connect

LOOK_EVERY_S = 0.1
HOLD_TIMEOUT_S = 5.0
STUCK_AFTER_S = 60.0


class Audience(Protocol):
    """Who watches."""

    def say(self, text: str) -> None:
        """Something happened."""

    def count(self, answered: int, requests: int) -> None:
        """So many are answered."""


def play(directory: Path, requests: int, audience: Audience) -> Ledger:
    """Send the requests, kill a worker when half is answered, wait for the rest, and read what came of it."""
    with ExitStack() as stack:
        runtime = stack.enter_context(connect(**settings_of(directory, CLIENT)))
        children = {name: stack.enter_context(Child(directory, name)) for name in WORKERS}
        for child in children.values():
            _await_ready(child)
            audience.say(f"{child.name} is ready, process {child.pid}")
        ids = runtime.queue.outbox(CLIENT).send_many(INBOX, FUNCTION, ({"n": n} for n in range(requests)))
        audience.say(f"{requests:,} requests are sent")
        _await_answers(runtime, requests // 2, requests, audience)
        _kill_at_work(children[VICTIM], audience)
        _await_answers(runtime, requests, requests, audience)
        right = _read_answers(runtime, ids)
        for name, child in children.items():
            if name != VICTIM:
                child.stop()
        return read_ledger(runtime, directory, ids, right)


def _await_ready(child: Child) -> None:
    if child.hear() != READY:
        raise DemoFailed(f"{child.name} did not get ready in time")


def _await_answers(runtime: Runtime, wanted: int, requests: int, audience: Audience) -> None:
    """Wait until so many requests have come to an end."""
    browser = runtime.queue.browser()
    ended, moved_at = -1, time.monotonic()
    while ended < wanted:
        if time.monotonic() - moved_at > STUCK_AFTER_S:
            raise DemoFailed(f"nothing was answered for {STUCK_AFTER_S:g} s; {ended:,} of {requests:,} are")
        counts = next(inbox.counts for inbox in browser.inboxes() if inbox.name == INBOX)
        before, ended = ended, sum(counts.get(state, 0) for state in TERMINAL)
        if ended != before:
            moved_at = time.monotonic()
        audience.count(ended, requests)
        time.sleep(LOOK_EVERY_S)


def _kill_at_work(victim: Child, audience: Audience) -> None:
    """Kill it when it has worked on messages and the queue does not know that yet: the worst moment."""
    victim.tell(HOLD)
    held = 0
    deadline = time.monotonic() + HOLD_TIMEOUT_S
    while held < THREADS and (left_s := deadline - time.monotonic()) > 0 and victim.hear(left_s):
        held += 1
    if not held:
        raise DemoFailed(f"{victim.name} got no message any more; run the demo with more requests")
    victim.kill()
    audience.say(f"{victim.name} is killed with SIGKILL: {held} requests done, but not yet finished in the queue")


def _read_answers(runtime: Runtime, ids: list[str]) -> int:
    """Fetch every answer as the client would; how many are right."""
    outbox = runtime.queue.outbox(CLIENT)
    right = 0
    for n, message_id in enumerate(ids):
        answer = outbox.poll(message_id)
        if answer is not None and answer.state is MessageState.OK and answer.payload == {"n": n, "square": n**2}:
            right += 1
    return right
