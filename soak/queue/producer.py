"""One producer process: sends requests and notices at a steady pace, and fetches every answer.

It writes down what it is about to send, sends it, and writes down that it is sent. Whoever is killed or cut off in
between sends again with the same id: either it is written now, or `DuplicateMessage` says that it was written then. So
after any number of deaths each intention is one message.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from soak.queue.connecting import connect_patiently
from soak.queue.plan import INBOXES
from towpath import Runtime
from towpath.errors import CommitUnknown, DatabaseUnavailable, DuplicateMessage, RequestDied
from towpath.queue import Outbox
from towpath.queue.payload import new_id
from towpath.testing.processes import leave_with_parent, order
from towpath.testing.queue_ledger import Entry, Journal, entries

PAUSE_S = 0.2
STEP_S = 0.02
TOGETHER = 10  # messages that are sent in one transaction
TOGETHER_EVERY = 50
FAIL_EVERY = 40


class Producer:
    """Goes on where the journal of its slot ends."""

    def __init__(self, runtime: Runtime, told: dict[str, Any]) -> None:
        path = Path(told["journal"])
        before = entries(path)
        self._runtime = runtime
        self._journal = Journal(path, durable=False)
        self._outbox: Outbox = runtime.queue.outbox(f"producer-{told['slot']}")
        self._share: int = told["share"]
        self._started_at: float = told["started_at"]
        self._until: float = told["until"]
        known = {entry["id"] for entry in before if entry["did"] in ("sent", "answered", "died")}
        self.count = sum(entry["did"] == "intend" for entry in before)
        self._in_doubt = [entry for entry in before if entry["did"] == "intend" and entry["id"] not in known]
        ended = {entry["id"] for entry in before if entry["did"] in ("answered", "died")}
        self._unanswered = [
            entry["id"]
            for entry in before
            if entry["did"] == "intend" and entry["request"] and entry["id"] not in ended
        ]

    def run(self) -> None:
        for intention in self._in_doubt:
            self._send([intention])
        while time.time() < self._until or self.count < self._share:
            while self.count < self._due():
                self._step()
            self._fetch(most=50)
            time.sleep(STEP_S)
        while self._unanswered:
            self._fetch(most=500)
            time.sleep(STEP_S)

    def _due(self) -> float:
        """How many should have been sent by now."""
        passed = (time.time() - self._started_at) / (self._until - self._started_at)
        return self._share * min(passed, 1.0)

    def _step(self) -> None:
        together = TOGETHER if self.count % TOGETHER_EVERY == 0 else 1
        self._send([self._intend() for _ in range(together)])

    def _intend(self) -> Entry:
        number, self.count = self.count, self.count + 1
        intention = {
            "id": new_id(),
            "n": number,
            "request": number % 2 == 0,
            "inbox": INBOXES[number // 2 % 2],
            "function": "fail" if number % FAIL_EVERY == 0 else "work",
        }
        self._journal.write(did="intend", **intention)
        if intention["request"]:
            self._unanswered.append(str(intention["id"]))
        return intention

    def _send(self, intentions: list[Entry]) -> None:
        """One message, or several that are written together or not at all."""
        found = 0
        while True:
            try:
                if len(intentions) == 1:
                    self._write(intentions[0])
                else:
                    with self._runtime.database.transaction() as tx:
                        for intention in intentions:
                            self._write(intention, tx=tx)
                break
            except DuplicateMessage:
                found = 1
                break
            except (CommitUnknown, DatabaseUnavailable) as error:
                self._journal.write(did="cut off", why=type(error).__name__)
                time.sleep(PAUSE_S)
        for intention in intentions:
            self._journal.write(did="sent", id=intention["id"], found=found)

    def _write(self, intention: Entry, **options: Any) -> None:
        send = self._outbox.send if intention["request"] else self._outbox.notice
        send(intention["inbox"], intention["function"], {"n": intention["n"]}, message_id=intention["id"], **options)

    def _fetch(self, most: int) -> None:
        """Take the answers that are there, the oldest first, and look at no more than so many requests."""
        try:
            for message_id in self._unanswered[:most]:
                if self._has_ended(message_id):
                    self._unanswered.remove(message_id)
        except (CommitUnknown, DatabaseUnavailable):
            time.sleep(PAUSE_S)

    def _has_ended(self, message_id: str) -> bool:
        try:
            answer = self._outbox.poll(message_id)
        except RequestDied:
            self._journal.write(did="died", id=message_id)
            return True
        if answer is None:
            return False
        self._journal.write(did="answered", id=message_id, state=answer.state)
        return True


def main() -> None:
    leave_with_parent()
    told = order()
    with connect_patiently(told["sections"]) as runtime:
        Producer(runtime, told).run()


if __name__ == "__main__":
    main()
