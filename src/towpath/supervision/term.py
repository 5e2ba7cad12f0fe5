"""The term: a lease by the database's time under which one peer acts for all.

The election says who may try; the term says who acts. Every change of a coordinator begins by holding the term: a
coordinator that was paused beyond its lease finds that out before it has changed anything, and nobody can take the
term from one that is in the middle of a change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from towpath.core import crash
from towpath.core.clock import MICROS
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind
from towpath.db import Database, Queries, Transaction
from towpath.db.event_log import EventLog
from towpath.errors import NotCoordinator


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


class TermStore:
    """The one row of `supervision_term`, inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.supervision", "terms", database.dialect)

    def read(self, tx: Transaction) -> Term:
        return Term(*tx.rows(self._sql["read_term"], {})[0])

    def take(self, tx: Transaction, holder: str, peer: int, lease_us: int) -> Term | None:
        """A new term; none while another's lasts, or one's own."""
        rows = tx.rows(self._sql["take_term"], {"holder": holder, "peer": peer, "lease_us": lease_us})
        return Term(*rows[0]) if rows else None

    def renew(self, tx: Transaction, term: int, holder: str, lease_us: int) -> bool:
        """Whether it goes on; a lease that is over is not renewed, also if nobody has taken the term."""
        return bool(tx.rows(self._sql["renew_term"], {"term": term, "holder": holder, "lease_us": lease_us}))

    def release(self, tx: Transaction, term: int, holder: str) -> None:
        tx.run(self._sql["release_term"], {"term": term, "holder": holder})

    def hold(self, tx: Transaction, term: int, holder: str) -> None:
        """Keep the term for this transaction; raises `NotCoordinator`."""
        if not tx.rows(self._sql["hold_term"], {"term": term, "holder": holder}):
            raise NotCoordinator(term, holder)


@dataclass(frozen=True, slots=True)
class Term:
    """The term as its row has it; times are the database's microseconds."""

    number: int
    holder: str | None
    peer: int | None
    taken_us: int | None
    until_us: int

    def is_over(self, now_us: int) -> bool:
        return self.until_us < now_us
