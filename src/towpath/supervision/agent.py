"""What a coordinator on another host has done here: it asks over the queue, and a peer of this host does it.

A request names the duty and the launch; the rest is read from the duty's row, so that a late one finds its launch
replaced and does nothing. How it came out is in the row too, where the coordinator looks.
"""

from __future__ import annotations

from towpath.db import Database
from towpath.queue import Queue
from towpath.queue.message import Message
from towpath.queue.synchronous import SynchronousInbox
from towpath.supervision.duty import Duty
from towpath.supervision.duty_store import DutyStore
from towpath.supervision.hands import Hands

REQUEST_TTL_S = 10.0  # the coordinator asks again as long as it wants it
OUTBOX = "supervision"
VERBS = ("start", "stop", "kill")


def inbox_of(host: str) -> str:
    """Where the peers of a host are asked."""
    return f"supervision.{host}"


class Agent:
    """Does on this host what the coordinator asks."""

    def __init__(self, database: Database, queue: Queue, host: str, hands: Hands) -> None:
        self._database = database
        self._queue = queue
        self._host = host
        self._hands = hands
        self._duties = DutyStore(database)

    def inbox(self) -> SynchronousInbox:
        """The service that handles the requests."""
        inbox = self._queue.synchronous(inbox_of(self._host))
        for verb in VERBS:
            inbox.on(verb)(self._handle)
        return inbox

    def _handle(self, message: Message) -> None:
        duty = self._current(message.payload["duty"], message.payload["launch_id"])
        if duty is not None:
            getattr(self._hands, message.function)(duty)

    def _current(self, name: str, launch_id: str) -> Duty | None:
        with self._database.glance() as tx:
            found = [duty for duty in self._duties.all(tx) if duty.name == name and duty.launch_id == launch_id]
        return found[0] if found else None
