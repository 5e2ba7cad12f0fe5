"""What every piece of the queue is made of: the database, its stores, the settings, this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog
from towpath.db.processes import Process, ProcessStore
from towpath.events import Events
from towpath.queue.inbox_store import InboxStore
from towpath.queue.message_store import MessageStore
from towpath.settings import QueueSettings


@dataclass(frozen=True, slots=True)
class Parts:
    """Made once, by the `Queue`, and handed to each of its pieces."""

    database: Database
    settings: QueueSettings
    events: Events
    event_log: EventLog
    messages: MessageStore
    inboxes: InboxStore
    processes: ProcessStore
    process: Callable[[], Process]  # only who claims needs a process row, so it is made when first asked for

    def ring_after(self, tx: Transaction, name: str | None) -> None:
        """Wake whoever waits for the name when the transaction has committed."""
        if name is not None:
            tx.after_commit(lambda: self.database.bells.ring((name,)))
