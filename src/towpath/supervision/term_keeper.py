"""The term as one peer asks for it: each question is a transaction of its own, and raises when the database is away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from towpath import crash
from towpath.clock import MICROS
from towpath.crash import CrashPoint
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog
from towpath.events import Event, EventKind
from towpath.supervision.term import TermStore


class TermKeeper:
    """Takes, renews and gives back the term for one peer."""

    def __init__(self, database: Database, event_log: EventLog, holder: str, peer: int, lease_s: float) -> None:
        """`holder` is the process id of the peer."""
        self.holder = holder
        self._database = database
        self._event_log = event_log
        self._peer = peer
        self._lease_us = int(lease_s * MICROS)
        self._store = TermStore(database)

    def take(self) -> int | None:
        """The number of a new term; none while another's lasts."""
        with self._database.transaction() as tx:
            term = self._store.take(tx, self.holder, self._peer, self._lease_us)
            if term is None:
                return None
            data = {"term": term.number, "peer": self._peer}
            self._event_log.record(tx, Event(EventKind.TERM_TAKEN, self.holder, data=data))
            crash.here(CrashPoint.TERM_BEFORE_COMMIT)
        crash.here(CrashPoint.TERM_AFTER_COMMIT)
        return term.number

    def renew(self, term: int) -> bool:
        """Whether it goes on."""
        with self._database.single() as tx:
            return self._store.renew(tx, term, self.holder, self._lease_us)

    def release(self, term: int) -> None:
        """Step down, so that another need not wait."""
        with self._database.single() as tx:
            self._store.release(tx, term, self.holder)

    def read(self) -> None:
        """Ask for something, to see whether the database answers."""
        with self._database.glance() as tx:
            self._store.read(tx)

    @contextmanager
    def under(self, term: int) -> Iterator[Transaction]:
        """A transaction in which this peer coordinates from its begin to its end; raises `NotCoordinator`."""
        with self._database.transaction() as tx:
            self._store.hold(tx, term, self.holder)
            yield tx
