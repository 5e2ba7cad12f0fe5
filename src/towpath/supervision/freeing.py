"""Frees what was a dead process's own, sooner than others would: they wait until they see that it is not alive.

It is done only for a process that is gone for certain. Messages are moved here; instances of actors, stages of flows
and lanes are taken over by whoever can run them, as soon as the process's row says dead.
"""

from __future__ import annotations

from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog
from towpath.db.processes import ProcessStore
from towpath.events import EventKind
from towpath.queue.caretaker import Caretaker
from towpath.queue.message_store import MessageStore
from towpath.supervision.holdings import Holdings

MOST_COUNTED = 2_000


class Freeing:
    """Counts what a process holds, and lets it go."""

    def __init__(self, database: Database, event_log: EventLog, caretaker: Caretaker) -> None:
        self._database = database
        self._event_log = event_log
        self._caretaker = caretaker
        self._processes = ProcessStore(database)
        self._messages = MessageStore(database)
        self._holdings = Holdings(database)

    def held(self, tx: Transaction, process_id: str) -> dict[str, int]:
        """What others take over once the process is dead."""
        return self._holdings.of(tx, process_id)

    def free(self, process_id: str) -> int | None:
        """Call it dead, and move the messages that it had claimed; returns how many. None: others are at it, ask again.

        May be done again, and by several at once.
        """
        with self._database.beats.transaction() as tx:
            self._processes.mark_gone(tx, process_id)
        self._caretaker.bury_the_dead()
        with self._database.read() as tx:
            is_freed = process_id not in self._messages.owners_with_claims(tx)
            return self._count_freed(tx, process_id) if is_freed else None

    def _count_freed(self, tx: Transaction, process_id: str) -> int:
        """Whoever has moved them: others look for the dead too. Of very many, as many as were looked at."""
        return sum(
            event.data.get("owner") == process_id
            for kind in (EventKind.CLAIM_FREED, EventKind.MESSAGE_GIVEN_UP)
            for event in self._event_log.page(tx, limit=MOST_COUNTED, kind=kind)
        )
