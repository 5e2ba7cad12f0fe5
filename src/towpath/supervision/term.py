"""The term: a lease by the database's time under which one peer acts for all.

The election says who may try; the term says who acts. Every change of a coordinator begins by holding the term: a
coordinator that was paused beyond its lease finds that out before it has changed anything, and nobody can take the
term from one that is in the middle of a change.
"""

from __future__ import annotations

from dataclasses import dataclass

from towpath.db import Database, Queries, Transaction
from towpath.errors import NotCoordinator


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
