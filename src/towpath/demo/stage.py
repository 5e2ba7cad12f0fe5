"""The demo from beginning to end."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from towpath.demo.child import Child, DemoFailed
from towpath.demo.ledger import Ledger, read_ledger
from towpath.demo.scene import CLIENT, FUNCTION, HOLD, INBOX, READY, THREADS, VICTIM, WORKERS, settings_of
from towpath.queue.state import TERMINAL
from towpath.runtime import Runtime, connect

LOOK_EVERY_S = 0.1
PORTION = 2 * THREADS
PORTION_TIMEOUT_S = 0.5
STUCK_AFTER_S = 60.0


class Audience(Protocol):
    """Who watches."""

    def say(self, text: str) -> None:
        """Something happened."""

    def count(self, answered: int, requests: int) -> None:
        """So many are answered."""


def play(directory: Path, requests: int, audience: Audience) -> Ledger:
    """Send requests, kill a worker when half of them is answered, wait for the rest, and read what came of it."""
    with ExitStack() as stack:
        runtime = stack.enter_context(connect(**settings_of(directory, CLIENT)))
        children = {name: stack.enter_context(Child(directory, name)) for name in WORKERS}
        for child in children.values():
            _await_ready(child)
            audience.say(f"{child.name} is ready, process {child.pid}")
        audience.say(f"the client sends {requests:,} requests")
        client = _Client(runtime, requests)
        client.send(requests // 2)
        _await_answers(runtime, requests // 2, requests, audience)
        _kill_at_work(children[VICTIM], client, audience)
        _await_answers(runtime, requests, requests, audience)
        right = client.read_answers()
        for name, child in children.items():
            if name != VICTIM:
                child.stop()
        return read_ledger(runtime, directory, client.ids, right)


class _Client:
    """Asks for the squares of 0, 1, 2 …"""

    def __init__(self, runtime: Runtime, requests: int) -> None:
        self._outbox = runtime.queue.outbox(CLIENT)
        self._requests = requests
        self.ids: list[str] = []

    @property
    def unsent(self) -> int:
        return self._requests - len(self.ids)

    def send(self, count: int) -> None:
        """The next requests, so many, or as many as are left."""
        first = len(self.ids)
        numbers = range(first, first + min(count, self.unsent))
        self.ids += self._outbox.send_many(INBOX, FUNCTION, [{"n": n} for n in numbers])

    def read_answers(self) -> int:
        """Fetch every answer; how many are right."""
        answers = map(self._outbox.poll, self.ids)
        return sum(
            answer is not None and answer.is_ok and answer.payload == {"n": n, "square": n**2}
            for n, answer in enumerate(answers)
        )


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
        counts = browser.counts(INBOX)
        before, ended = ended, sum(counts.get(state, 0) for state in TERMINAL)
        if ended != before:
            moved_at = time.monotonic()
        audience.count(ended, requests)
        time.sleep(LOOK_EVERY_S)


def _kill_at_work(victim: Child, client: _Client, audience: Audience) -> None:
    """Kill it when it has worked on requests and the queue does not know that yet: the worst moment."""
    victim.tell(HOLD)
    held = 0
    # The other worker is at it too and quick: requests come in small portions until the victim's hands are full.
    while held < THREADS and client.unsent:
        client.send(PORTION)
        while held < THREADS and victim.hear(PORTION_TIMEOUT_S):
            held += 1
    if not held:
        raise DemoFailed(f"{victim.name} did not get a single request of the second half")
    client.send(client.unsent)
    victim.kill()
    audience.say(f"{victim.name} is killed with SIGKILL: {held} requests done, but not yet finished in the queue")
