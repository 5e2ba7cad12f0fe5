"""Changes that are asked for over HTTP or from a terminal: each with its row in the trail, and made once.

The steps, in order; after a crash between any two of them the same request with the same idempotency key goes on right:

1. In one transaction: a row in the trail (`begun`) and the request (`running`, owned by this process).
2. The change. Its own transaction also moves the row to `done` and the request to `made` (`alongside`).
3. The answer is looked up and kept (`answered`).
4. The answer is given.

Killed after 1, nothing was changed: the next one takes the request over, because its owner is dead. An owner that was
only taken for dead cannot commit 2 any more: the request is not its own. Killed after 2, the change is not made again
and 3 follows. Killed after 3, the kept answer is given.

docs/reference/access-states.md is held equal to the states and moves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

from towpath.core import crash
from towpath.core.clock import to_datetime
from towpath.core.crash import CrashPoint
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.db.event_log import alongside
from towpath.db.processes import ProcessStore
from towpath.errors import CommitUnknown, Refused, RequestReused, RequestRunning

T = TypeVar("T")
LONGEST = 500  # characters of each text in the trail


class ChangeOutcome(StrEnum):
    """What came of a change, as a row of the trail has it."""

    BEGUN = "begun"  # nothing yet; for ever, when the process died before it was made
    DONE = "done"  # it was made: written in the transaction that made it
    REFUSED = "refused"  # it was not allowed, or not possible; nothing was changed
    FAILED = "failed"  # something broke; the reason says what


class RequestState(StrEnum):
    """How far a request with an idempotency key is."""

    RUNNING = "running"  # a process is at it, and nothing has been changed
    MADE = "made"  # the change was made; its answer is not kept
    ANSWERED = "answered"  # the answer is kept, and is given again


_O, _R = ChangeOutcome, RequestState
OUTCOME_MOVES: Mapping[ChangeOutcome, frozenset[ChangeOutcome]] = {
    _O.BEGUN: frozenset({_O.DONE, _O.REFUSED, _O.FAILED}),
    _O.DONE: frozenset(),
    _O.REFUSED: frozenset(),
    _O.FAILED: frozenset(),
}
REQUEST_MOVES: Mapping[RequestState, frozenset[RequestState]] = {
    _R.RUNNING: frozenset({_R.MADE, _R.ANSWERED}),
    _R.MADE: frozenset({_R.ANSWERED}),
    _R.ANSWERED: frozenset(),
}


class ChangeService:
    """Makes changes in the name of a principal, each with its row in the trail."""

    def __init__(self, database: Database, process_id: Callable[[], str]) -> None:
        self._database = database
        self._process_id = process_id
        self._audit = AuditStore(database)
        self._requests = RequestStore(database)
        self._processes = ProcessStore(database)
        self._mine: set[tuple[str, str]] = set()  # requests that a thread of this process is at
        self._lock = threading.Lock()

    @contextmanager
    def recorded(self, asked: AuditRequest) -> Iterator[None]:
        """A change in this block has its row in the trail."""
        with self._database.transaction() as tx:
            seq = self._audit.add(tx, asked)
        with self._ended(seq), alongside(lambda tx: self._audit.end(tx, seq, ChangeOutcome.DONE)):
            yield

    def refused(self, asked: AuditRequest, reason: str) -> None:
        """Note in the trail that a request was refused."""
        with self._database.transaction() as tx:
            self._audit.add(tx, asked, ChangeOutcome.REFUSED, reason)

    def make(
        self, asked: AuditRequest, change: RequestedChange[T], idempotency: Idempotency | None = None
    ) -> ChangeAnswer:
        """Make the change and say what came of it; with an idempotency key once, however often it is asked for."""
        if idempotency is None:
            with self.recorded(asked):
                made = change.act()
            return change.show(made)
        with self._alone(asked.who, idempotency.key):
            try:
                return self._make_once(asked, change, idempotency)
            except RequestReused as error:
                self.refused(asked, str(error))
                raise

    def _make_once(self, asked: AuditRequest, change: RequestedChange[T], idempotency: Idempotency) -> ChangeAnswer:
        seq, found = self._take(asked, idempotency)
        if found is not None:
            return self._again(asked.who, idempotency.key, found, change)
        crash.here(CrashPoint.REQUEST_TAKEN)
        who, key, is_made = asked.who, idempotency.key, threading.Event()

        def note(tx: Transaction) -> None:
            """Note the change in the transaction that makes it; of several the first counts. An error undoes it."""
            if is_made.is_set():
                return
            if not self._requests.made(tx, who, key, owner=self._process_id(), audit_seq=seq):
                raise RequestRunning(key)
            self._audit.end(tx, seq, ChangeOutcome.DONE)
            tx.after_commit(is_made.set)

        try:
            with self._ended(seq), alongside(note):
                made = change.act()
        except CommitUnknown:
            raise  # the request says what became of it, to whoever asks again
        except BaseException:
            if not is_made.is_set():  # nothing was changed
                with self._database.single() as tx:
                    self._requests.let_go(tx, who, key, seq)
            raise
        crash.here(CrashPoint.REQUEST_MADE)
        return self._keep(who, key, seq, change.show(made), change.is_secret)

    def _take(self, asked: AuditRequest, idempotency: Idempotency) -> tuple[int, StoredRequest | None]:
        """The row in the trail of a request that is ours now; or one that was made before."""
        who, key, me = asked.who, idempotency.key, self._process_id()
        left_behind = (me, self._dead_owner(who, key))  # of this process's own, `_alone` lets one thread in
        with self._database.transaction() as tx:
            found = self._requests.read(tx, who, key)
            if found is not None and found.asked != idempotency.asked:
                raise RequestReused(key)
            if found is not None and found.state is not RequestState.RUNNING:
                return found.audit_seq, found
            if found is not None and found.owner not in left_behind:
                raise RequestRunning(key)
            seq = self._audit.add(tx, asked)
            if found is None:
                is_ours = self._requests.take(tx, who, key, asked=idempotency.asked, owner=me, audit_seq=seq)
            else:
                is_ours = self._requests.take_over(tx, who, key, found, owner=me, audit_seq=seq)
            if not is_ours:
                raise RequestRunning(key)  # somebody was faster; the row in the trail is undone with this
            return seq, None

    def _dead_owner(self, who: str, key: str) -> str | None:
        """The process that ran the request, if it is dead. Asked before locking: it may be in another file."""
        with self._database.glance() as tx:
            found = self._requests.read(tx, who, key)
        if found is None or found.state is not RequestState.RUNNING:
            return None
        with self._database.beats.glance() as tx:
            return found.owner if not self._processes.living(tx, [found.owner]) else None

    def _again(self, who: str, key: str, found: StoredRequest, change: RequestedChange[T]) -> ChangeAnswer:
        if found.status is not None and found.answer is not None:
            return ChangeAnswer(found.status, found.answer, is_repeated=True)
        answer = change.show(change.act() if change.is_repeatable else None)
        kept = self._keep(who, key, found.audit_seq, answer, change.is_secret)
        return ChangeAnswer(kept.status, kept.body, is_repeated=True)

    def _keep(self, who: str, key: str, seq: int, answer: ChangeAnswer, is_secret: bool) -> ChangeAnswer:
        if not is_secret:
            with self._database.transaction() as tx:
                self._requests.answered(tx, who, key, seq, answer.status, answer.body)
            crash.here(CrashPoint.REQUEST_ANSWERED)
        return answer

    @contextmanager
    def _alone(self, who: str, key: str) -> Iterator[None]:
        with self._lock:
            if (who, key) in self._mine:
                raise RequestRunning(key)
            self._mine.add((who, key))
        try:
            yield
        finally:
            with self._lock:
                self._mine.discard((who, key))

    @contextmanager
    def _ended(self, seq: int) -> Iterator[None]:
        """The row in the trail says what came of the block."""
        try:
            yield
        except Refused as error:
            self._end(seq, ChangeOutcome.REFUSED, str(error))
            raise
        except Exception as error:
            self._end(seq, ChangeOutcome.FAILED, f"{type(error).__name__}: {error}")
            raise
        self._end(seq, ChangeOutcome.DONE)

    def _end(self, seq: int, outcome: ChangeOutcome, reason: str = "") -> None:
        with self._database.single() as tx:
            self._audit.end(tx, seq, outcome, reason)


@dataclass(frozen=True, slots=True)
class RequestedChange(Generic[T]):
    """The change to make, and how its answer is found.

    `show` gets what `act` returned, or None when the change was made before and only the answer was lost. An answer
    that holds a secret is not kept. A change of several transactions is begun again when it was cut off: doing that
    must do no harm.
    """

    act: Callable[[], T]
    show: Callable[[T | None], ChangeAnswer]
    is_secret: bool = False
    is_repeatable: bool = False


@dataclass(frozen=True, slots=True)
class ChangeAnswer:
    """What the caller is answered."""

    status: int
    body: str
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class Idempotency:
    """The key that came with a request, and what was asked with it, as one hash."""

    key: str
    asked: str


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """A request as the trail has it: who asks, how they were recognised, for what, about what."""

    who: str
    by: str
    what: str
    subject: str
    request: str = ""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A row of the trail."""

    seq: int
    at: datetime
    who: str
    by: str
    what: str
    subject: str
    outcome: ChangeOutcome
    reason: str
    request: str


class AuditStore:
    """`access_audit`: what was asked for and what came of it, inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.access", "audit", database.dialect)

    def add(
        self, tx: Transaction, asked: AuditRequest, outcome: ChangeOutcome = ChangeOutcome.BEGUN, reason: str = ""
    ) -> int:
        """A new row; returns its number."""
        params = {
            "who": storable(asked.who)[:LONGEST],
            "known_by": storable(asked.by)[:LONGEST],
            "what": storable(asked.what)[:LONGEST],
            "subject": storable(asked.subject)[:LONGEST],
            "outcome": outcome,
            "reason": storable(reason)[:LONGEST],
            "request": storable(asked.request)[:LONGEST],
        }
        return int(tx.rows(self._sql["add_row"], params)[0][0])

    def end(self, tx: Transaction, seq: int, outcome: ChangeOutcome, reason: str = "") -> None:
        """Note what came of it, unless that is known already."""
        params = {"seq": seq, "outcome": outcome, "reason": storable(reason)[:LONGEST]}
        tx.rows(self._sql["end_row"], params)

    def page(
        self, tx: Transaction, *, limit: int, before: int | None, who: str | None, subject: str | None
    ) -> list[AuditRow]:
        """The newest first; by person or by what it is about."""
        # A query for each filter, since one for all could use no index.
        query = "list_rows_of_subject" if subject else "list_rows_of_who" if who else "list_rows"
        named = {
            "who": None if who is None else storable(who),
            "subject": None if subject is None else storable(subject),
        }
        return [_row(row) for row in tx.rows(self._sql[query], {"limit": limit, "before": before, **named})]

    def forget(self, tx: Transaction, older_than_us: int, limit: int) -> int:
        return tx.run(self._sql["forget_rows"], {"older_than": older_than_us, "limit": limit})


class RequestStore:
    """`access_request`: requests with an idempotency key, inside a transaction that the caller opens."""

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

    def answered(self, tx: Transaction, who: str, key: str, audit_seq: int, status: int, answer: str) -> None:
        params = {"who": who, "key": key, "audit_seq": audit_seq, "status": status, "answer": answer}
        tx.rows(self._sql["answer_request"], params)

    def let_go(self, tx: Transaction, who: str, key: str, audit_seq: int) -> None:
        tx.run(self._sql["let_go_of_request"], {"who": who, "key": key, "audit_seq": audit_seq})

    def forget(self, tx: Transaction, older_than_us: int, limit: int) -> int:
        return tx.run(self._sql["forget_requests"], {"older_than": older_than_us, "limit": limit})


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request as its row has it."""

    asked: str
    state: RequestState
    owner: str
    status: int | None
    answer: str | None
    audit_seq: int


def _row(row: Row) -> AuditRow:
    seq, at, who, by, what, subject, outcome, reason, request = row
    return AuditRow(seq, to_datetime(at), who, by, what, subject, ChangeOutcome(outcome), reason, request)
