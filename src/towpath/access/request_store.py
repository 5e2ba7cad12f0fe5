"""The table `access_request`: what was asked for with an idempotency key, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.access.outcome import RequestState
from towpath.db import Database, Queries, Transaction


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request as its row has it."""

    asked: str
    state: RequestState
    owner: str
    status: int | None
    answer: str | None
    audit_seq: int


class RequestStore:
    """Reads and moves requests inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.access", "requests", database.dialect)

    def take(self, tx: Transaction, who: str, key: str, *, asked: str, owner: str, audit_seq: int) -> bool:
        """Whether it is this process's; false when it was taken before."""
        params = {"who": who, "key": key, "asked": asked, "owner": owner, "audit_seq": audit_seq}
        return bool(tx.rows(self._sql["take_request"], params))

    def read(self, tx: Transaction, who: str, key: str) -> StoredRequest | None:
        rows = tx.rows(self._sql["read_request"], {"who": who, "key": key})
        if not rows:
            return None
        asked, state, *rest = rows[0]
        return StoredRequest(asked, RequestState(state), *rest)

    def take_over(
        self, tx: Transaction, who: str, key: str, found: StoredRequest, *, owner: str, audit_seq: int
    ) -> bool:
        """Whether it is this process's now."""
        params = {"who": who, "key": key, "owner": owner, "audit_seq": audit_seq}
        before = {"before": found.owner, "audit_before": found.audit_seq}
        return bool(tx.rows(self._sql["take_over_request"], params | before))

    def made(self, tx: Transaction, who: str, key: str, *, owner: str, audit_seq: int) -> bool:
        params = {"who": who, "key": key, "owner": owner, "audit_seq": audit_seq}
        return bool(tx.rows(self._sql["make_request"], params))

    def answered(self, tx: Transaction, who: str, key: str, audit_seq: int, status: int, answer: str) -> bool:
        params = {"who": who, "key": key, "audit_seq": audit_seq, "status": status, "answer": answer}
        return bool(tx.rows(self._sql["answer_request"], params))

    def let_go(self, tx: Transaction, who: str, key: str, audit_seq: int) -> None:
        tx.run(self._sql["let_go_of_request"], {"who": who, "key": key, "audit_seq": audit_seq})

    def forget(self, tx: Transaction, older_than_us: int, limit: int) -> int:
        return tx.run(self._sql["forget_requests"], {"older_than": older_than_us, "limit": limit})
