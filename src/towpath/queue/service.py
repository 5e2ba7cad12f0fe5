"""The queue of one database: makes outboxes, inboxes and the services that look after them."""

from __future__ import annotations

from collections.abc import Callable

from towpath.core.events import Events
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.db.processes import Process, ProcessStore
from towpath.queue.browser import QueueBrowser
from towpath.queue.consumers import AsynchronousInbox, SingleShotInbox, SynchronousInbox
from towpath.queue.inbox import DEFAULT_MAX_ATTEMPTS, Inbox
from towpath.queue.janitor import Caretaker, Janitor
from towpath.queue.operator import Operator
from towpath.queue.outbox import Outbox
from towpath.queue.states import OnOwnerDeath
from towpath.queue.store import InboxStore, MessageStore, QueueContext
from towpath.settings import QueueSettings


class Queue:
    """What `runtime.queue` is: the way to every part of the queue."""

    def __init__(
        self,
        database: Database,
        settings: QueueSettings,
        events: Events,
        event_log: EventLog,
        process: Callable[[], Process],
    ) -> None:
        self.parts = QueueContext(
            database,
            settings,
            events,
            event_log,
            MessageStore(database),
            InboxStore(database),
            ProcessStore(database),
            process,
        )

    def outbox(self, name: str) -> Outbox:
        """Sends under a name; answers arrive in the inbox `name//reply`."""
        return Outbox(self.parts, name)

    def inbox(
        self,
        name: str,
        on_owner_death: OnOwnerDeath | str = OnOwnerDeath.AGAIN,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    ) -> Inbox:
        """Register an inbox, and claim from it by hand, in batches if wanted."""
        return Inbox(self.parts, name, on_owner_death, max_attempts)

    def single_shot(
        self,
        name: str,
        on_owner_death: OnOwnerDeath | str = OnOwnerDeath.AGAIN,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    ) -> SingleShotInbox:
        """Register an inbox, and wait for one message from it."""
        return SingleShotInbox(self.parts, self.inbox(name, on_owner_death, max_attempts))

    def synchronous(
        self,
        name: str,
        on_owner_death: OnOwnerDeath | str = OnOwnerDeath.AGAIN,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    ) -> SynchronousInbox:
        """Register an inbox, and handle its messages one at a time."""
        return SynchronousInbox(self.parts, self.inbox(name, on_owner_death, max_attempts))

    def asynchronous(
        self,
        name: str,
        workers: int = 8,
        on_owner_death: OnOwnerDeath | str = OnOwnerDeath.AGAIN,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    ) -> AsynchronousInbox:
        """Register an inbox, and handle up to `workers` of its messages at once."""
        return AsynchronousInbox(self.parts, self.inbox(name, on_owner_death, max_attempts), workers)

    def operator(self, who: str) -> Operator:
        """Changes by hand, in the name of a person."""
        return Operator(self.parts, who)

    def browser(self) -> QueueBrowser:
        """Reading without touching."""
        return QueueBrowser(self.parts)

    def caretaker(self) -> Caretaker:
        """Frees what the dead held; the runtime runs one."""
        return Caretaker(self.parts)

    def janitor(self) -> Janitor:
        """Deletes what is past its retention time; the runtime runs one."""
        return Janitor(self.parts)
