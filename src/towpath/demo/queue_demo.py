"""The queue demo: two workers, a thousand requests, one of the workers killed at its work.

`play` runs it from beginning to end. What came of it is read from the database and held against the journals in which
the workers noted by themselves what they did. `queue_worker` is what is started twice; the names and settings here are
those that client and workers agree on.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from towpath.core.events import EventKind
from towpath.db.event_log import StoredEvent
from towpath.errors import TowpathError
from towpath.queue import Message, MessageState
from towpath.queue.outbox import reply_inbox
from towpath.queue.states import TERMINAL
from towpath.runtime import Runtime, connect

INBOX = "numbers"
FUNCTION = "square"
CLIENT = "client"
WORKERS = ("worker-1", "worker-2")
VICTIM = WORKERS[0]
THREADS = 4  # messages that one worker has in hand at once
WORK_S = 0.01  # how long each takes it

# Said by the client to a worker, and by a worker to the client.
HOLD = "hold"
READY = "ready"
HOLDING = "holding"

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
PAGE = 1_000
LOOK_EVERY_S = 0.1
PORTION = 2 * THREADS
PORTION_TIMEOUT_S = 0.5
STUCK_AFTER_S = 60.0


def play(directory: Path, requests: int, audience: DemoAudience) -> DemoLedger:
    """Send requests, kill a worker when half of them is answered, wait for the rest, and read what came of it."""
    with ExitStack() as stack:
        runtime = stack.enter_context(connect(**settings_of(directory, CLIENT)))
        children = {name: stack.enter_context(DemoWorker(directory, name)) for name in WORKERS}
        for child in children.values():
            if child.hear() != READY:
                raise DemoFailed(f"{child.name} did not get ready in time")
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


class DemoAudience(Protocol):
    """Receives what happens, to show it."""

    def say(self, text: str) -> None:
        """Something happened."""

    def count(self, answered: int, requests: int) -> None:
        """`answered` of the requests have come to an end."""


@dataclass(frozen=True, slots=True)
class DemoLedger:
    """The outcome of the demo."""

    requests: int
    states: dict[str, int]
    answers_min: int
    answers_max: int
    right_answers: int
    workers: tuple[WorkerLine, ...]
    claims_freed: int
    worked_on_twice: int
    never_worked_on: int

    @property
    def is_as_promised(self) -> bool:
        """Every request was answered, once, rightly, and somebody really died on the way."""
        return (
            self.states[MessageState.OK] == self.requests == sum(self.states.values()) == self.right_answers
            and self.answers_min == self.answers_max == 1
            and self.never_worked_on == 0
            and 0 < self.worked_on_twice <= self.claims_freed
            and [worker.died for worker in self.workers].count(True) == 1
        )


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """One worker: how many requests it finished by the database, and how many it worked on by its own journal."""

    name: str
    answered: int
    worked_on: int
    died: bool
    noticed_after_s: float | None  # how long after its last beat its death was noticed


def read_ledger(runtime: Runtime, directory: Path, ids: Sequence[str], right_answers: int) -> DemoLedger:
    requests = list(_all_messages(runtime, INBOX))
    answers = Counter(message.related_id for message in _all_messages(runtime, reply_inbox(CLIENT)))
    per_request = [answers[message_id] for message_id in ids]
    states = Counter(message.state for message in requests)
    journals = {name: journal_of(directory, name).read_text().split() for name in WORKERS}
    worked_on = Counter(message_id for journal in journals.values() for message_id in journal)
    with runtime.database.read() as tx:
        freed = runtime.event_log.page(tx, limit=PAGE, kind=EventKind.CLAIM_FREED)
        died = runtime.event_log.page(tx, limit=PAGE, kind=EventKind.PROCESS_DIED)
    deaths = {event.data["name"]: event for event in reversed(died)}
    return DemoLedger(
        requests=len(ids),
        states={state: states[state] for state in MessageState},
        answers_min=min(per_request),
        answers_max=max(per_request),
        right_answers=right_answers,
        workers=tuple(_worker_line(name, requests, journals[name], deaths.get(name)) for name in WORKERS),
        claims_freed=len(freed),
        worked_on_twice=sum(count > 1 for count in worked_on.values()),
        never_worked_on=sum(worked_on[message_id] == 0 for message_id in ids),
    )


class DemoWorker:
    """One worker process. Its standard input is its life-line: it ends when that is closed, by us or by our death."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self._log = directory / f"{name}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "towpath.demo.queue_worker", str(directory), name],
                cwd=directory,
                env={key: value for key, value in os.environ.items() if not key.upper().startswith("TOWPATH_")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # a Ctrl-C at the terminal is ours to handle
            )
        self._said: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name=f"listen:{name}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was made with a pipe
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def hear(self, timeout_s: float = START_TIMEOUT_S) -> str | None:
        """The next line that it says; none when none comes in time."""
        try:
            line = self._said.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if line is None:
            raise DemoFailed(f"{self.name} ended with {self._process.wait()}; its log is {self._log}")
        return line

    def kill(self) -> None:
        """SIGKILL: no handler, no clean-up, no last word."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Let it end in order."""
        assert self._process.stdin is not None  # noqa: S101 - it was made with a pipe
        self._process.stdin.close()
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise DemoFailed(f"{self.name} did not stop; its log is {self._log}") from error
        if code != 0:
            raise DemoFailed(f"{self.name} ended with {code}; its log is {self._log}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it was made with a pipe
        try:
            for line in self._process.stdout:
                self._said.put(line.strip())
        except ValueError:
            pass  # closed under us: nobody listens any more
        self._said.put(None)


class DemoFailed(TowpathError):
    """The demo could not be played to its end."""


def settings_of(directory: Path, name: str) -> dict[str, Any]:
    """Settings with a short lease, so that a death is noticed within seconds."""
    return {
        "database": {"url": database_url(directory), "auto_upgrade": True, "synchronous": "full"},
        "process": {"name": name, "heartbeat_s": 0.3, "lease_s": 1.5},
        "queue": {"caretaker_s": 0.3},
    }


def database_url(directory: Path) -> str:
    return f"sqlite:///{directory / 'towpath.db'}"


def journal_of(directory: Path, name: str) -> Path:
    """Where a worker notes what it has worked on, independently of the database."""
    return directory / f"{name}.journal"


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
        """Send the next `count` requests, or as many as are left."""
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


def _await_answers(runtime: Runtime, wanted: int, requests: int, audience: DemoAudience) -> None:
    """Wait until `wanted` requests have come to an end."""
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


def _kill_at_work(victim: DemoWorker, client: _Client, audience: DemoAudience) -> None:
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


def _worker_line(
    name: str, requests: Sequence[Message], journal: Sequence[str], death: StoredEvent | None
) -> WorkerLine:
    noticed_after = None if death is None else death.at - datetime.fromisoformat(death.data["last_beat"])
    return WorkerLine(
        name=name,
        # A process's id is its name and something that is new at each start.
        answered=sum((message.owner or "").rpartition("-")[0] == name for message in requests),
        worked_on=len(journal),
        died=death is not None,
        noticed_after_s=None if noticed_after is None else noticed_after.total_seconds(),
    )


def _all_messages(runtime: Runtime, inbox: str) -> Iterator[Message]:
    browser = runtime.queue.browser()
    before: int | None = None
    while page := browser.page(limit=PAGE, before=before, inbox=inbox):
        yield from page
        before = page[-1].seq
