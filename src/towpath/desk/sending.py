"""What sends records of cases anywhere, or calls that back: a guarded move and a row of the outbox, committed together.

Everything here raises the ticket of a case in the statement that moves it (docs/explanation/desk.md, Tickets).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from towpath.clock import MICROS
from towpath.db import Database, Transaction
from towpath.desk.case import Case
from towpath.desk.case_state import CaseState
from towpath.desk.case_store import CaseStore
from towpath.desk.lane_store import LaneStore
from towpath.desk.outbox_store import OutboxStore, Queued
from towpath.desk.target import Target

GAP = "gap"  # a kind of case that has no body, so that nothing of it can be sent
RELAY_BELL = "desk/relay"
TOWPATH = "towpath"


class Sends:
    """Given a transaction by the caller. What a move finds in another state is left as it is: compare the ids."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cases = CaseStore(database)
        self._lanes = LaneStore(database)
        self._outbox = OutboxStore(database)

    def replay(
        self,
        tx: Transaction,
        cases: Sequence[Case],
        *,
        delay_s: float | None,
        frm: Collection[CaseState],
        who: str = TOWPATH,
        why: str = "",
        jitter_s: float | None = None,
    ) -> list[str]:
        """Send them back to their stages, at once or after waiting in a lane; returns those that go."""
        moved: list[str] = []
        for flow, some in _by_flow(cases).items():
            to = CaseState.REPLAYING if delay_s is None else CaseState.WAITING
            lane = None if delay_s is None else self.lane(tx, flow, delay_s, jitter_s)
            due_at = None if delay_s is None else self._database.now() + round(delay_s * MICROS)
            gone = self._move(tx, some, to, frm, who=who, why=why, lane=lane, due_at=due_at)
            self.enqueue(tx, flow, gone)
            moved += gone
        return moved

    def resend(
        self,
        tx: Transaction,
        cases: Sequence[Case],
        *,
        who: str,
        why: str,
        frm: Collection[CaseState] = (CaseState.OPEN, CaseState.WAITING),
    ) -> list[str]:
        """Send them to their source as new records; they are *resent* when the log has them. Returns those that go."""
        moved: list[str] = []
        for flow, some in _by_flow(cases).items():
            gone = self._move(tx, some, CaseState.REPLAYING, frm, who=who, why=why)
            self.enqueue(tx, flow, gone, Target.SOURCE, who, why)
            moved += gone
        return moved

    def _move(
        self,
        tx: Transaction,
        cases: Sequence[Case],
        to: CaseState,
        frm: Collection[CaseState],
        *,
        who: str,
        why: str,
        lane: int | None = None,
        due_at: int | None = None,
    ) -> list[str]:
        """Each from the state in which it was found, so that this need not be asked again."""
        found: dict[CaseState, list[str]] = defaultdict(list)
        for case in cases:
            found[case.state].append(case.id)
        moved: list[str] = []
        for state in sorted(found.keys() & {*frm}):
            moved += self._cases.move(
                tx, found[state], to, frm=[state], who=who, why=why, ticket=True, lane=lane, due_at=due_at
            )
        return moved

    def recall(self, tx: Transaction, ids: Collection[str], *, who: str, why: str) -> list[str]:
        """Take what waits in lanes back to the desk; returns what was still there."""
        waiting = (CaseState.WAITING,)
        return self._cases.move(tx, ids, CaseState.OPEN, frm=waiting, who=who, why=why, ticket=True, gives_back=True)

    def lane(self, tx: Transaction, flow: str, delay_s: float, jitter_s: float | None = None) -> int:
        """The number of the lane in which records of a flow wait for that long, made when it is new."""
        jitter_ms = None if jitter_s is None else round(jitter_s * 1000)
        return self._lanes.ensure(tx, flow, round(delay_s * 1000), jitter_ms).partition

    def enqueue(
        self,
        tx: Transaction,
        flow: str,
        ids: Collection[str],
        target: Target = Target.REENTRY,
        who: str | None = None,
        why: str | None = None,
    ) -> None:
        """Rows for cases that this transaction has moved to *waiting* or *replaying*, as they are now."""
        if ids:
            self._outbox.enqueue(tx, flow, ids, target, who, why)
            self._wake(tx)

    def queue(self, tx: Transaction, flow: str, rows: Sequence[Queued]) -> None:
        """The same for many of which all is known, such as cases that this transaction has made."""
        if rows:
            self._outbox.add(tx, flow, rows, self._database.now())
            self._wake(tx)

    def _wake(self, tx: Transaction) -> None:
        tx.after_commit(lambda: self._database.bells.ring([RELAY_BELL]))


def _by_flow(cases: Sequence[Case]) -> Mapping[str, list[Case]]:
    found: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.kind != GAP:
            found[case.flow].append(case)
    return found
