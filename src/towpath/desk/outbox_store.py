"""The tables `desk_outbox` and `desk_relay`: what is to be appended to topics, in order, and who does it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.desk.case_state import CaseState
from towpath.desk.target import Target


class Going(NamedTuple):
    """A row of the outbox with what is needed of its case, whose part is None when the case is gone."""

    seq: int
    case_id: str
    ticket: int
    attempt: int
    target: Target
    lane: int | None
    due_at: int | None
    who: str | None
    why: str | None
    case_ticket: int | None
    state: CaseState | None
    stage: str
    topic: str
    key: bytes | None
    body_bytes: int

    @property
    def is_wanted(self) -> bool:
        """Whether nobody has called it back since."""
        is_out = self.state is (CaseState.WAITING if self.target is Target.LANE else CaseState.REPLAYING)
        return is_out and self.ticket == self.case_ticket


class Queued(NamedTuple):
    """What is to go out: to a lane, or without one back to the stage."""

    case_id: str
    ticket: int
    attempt: int
    lane: int | None = None
    due_at: int | None = None


class Unsent(NamedTuple):
    """A row of the outbox."""

    seq: int
    case_id: str
    ticket: int
    target: Target


_COLUMNS = ("flow", "seq", "case_id", "ticket", "attempt", "target", "lane", "due_at", "made_at")


class OutboxStore:
    """Reads and changes the outbox inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk", "outbox", database.dialect)

    def enqueue(
        self,
        tx: Transaction,
        flow: str,
        ids: Collection[str],
        target: Target = Target.REENTRY,
        who: str | None = None,
        why: str | None = None,
    ) -> int:
        """Rows for cases that are *waiting* (to their lane) or *replaying* (to `target`); returns how many."""
        values = {"flow": flow, "ids": json.dumps(list(ids)), "before": self._numbers(tx, flow, len(ids))}
        return tx.run(self._sql["enqueue"], {**values, "target": target, "who": who, "why": why})

    def add(self, tx: Transaction, flow: str, rows: Sequence[Queued], now: int) -> None:
        """Rows of which all is known."""
        first = self._numbers(tx, flow, len(rows)) + 1
        tx.insert_many("desk_outbox", _COLUMNS, (_row(flow, seq, row, now) for seq, row in enumerate(rows, first)))

    def _numbers(self, tx: Transaction, flow: str, count: int) -> int:
        """The number before the first of so many new ones. Nobody else gets any until the transaction ends."""
        last: int = tx.rows(self._sql["take_numbers"], {"flow": flow, "count": count})[0][0]
        return last - count

    def flows(self, tx: Transaction, owner: str) -> list[str]:
        """The flows that this process may send for, and that have something to send."""
        return [flow for (flow,) in tx.rows(self._sql["flows"], {"owner": owner})]

    def owners(self, tx: Transaction) -> set[str]:
        return {owner for (owner,) in tx.rows(self._sql["owners"], {})}

    def claim(self, tx: Transaction, flow: str, owner: str) -> bool:
        """This process sends for the flow from now on; false when another does."""
        return bool(tx.rows(self._sql["claim_relay"], {"flow": flow, "owner": owner}))

    def free(self, tx: Transaction, owners: Collection[str]) -> int:
        """The flows of these are nobody's from now on; returns how many."""
        return sum(tx.run(self._sql["free_relays_of"], {"owner": owner}) for owner in owners)

    def page(self, tx: Transaction, flow: str, after: int, limit: int) -> list[Going]:
        """The rows after a number, in order."""
        rows = tx.rows(self._sql["page"], {"flow": flow, "after": after, "limit": limit})
        return [_going(row) for row in rows]

    def of_cases(self, tx: Transaction, ids: Collection[str]) -> list[Unsent]:
        """What is still to be sent of some cases, as far as the outbox knows."""
        rows = tx.rows(self._sql["rows_of_cases"], {"ids": json.dumps(list(ids))})
        return [Unsent(int(seq), str(id), int(ticket), _TARGETS[target]) for seq, id, ticket, target in rows]

    def resent(self, tx: Transaction, flow: str, upto: int) -> dict[tuple[str, str], list[str]]:
        """The cases up to a number that are in their source again, by who wanted that and why."""
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for id, who, why in tx.rows(self._sql["resent"], {"flow": flow, "upto": upto}):
            found[who, why].append(str(id))
        return found

    def delete(self, tx: Transaction, flow: str, upto: int) -> int:
        return tx.run(self._sql["delete_rows"], {"flow": flow, "upto": upto})

    def counts(self, tx: Transaction) -> dict[str, int]:
        """How much is to be sent for each flow."""
        return dict(tx.rows(self._sql["count_rows"], {}))


def _row(flow: str, seq: int, row: Queued, now: int) -> tuple[object, ...]:
    target = Target.REENTRY if row.lane is None else Target.LANE
    return (flow, seq, row.case_id, row.ticket, row.attempt, target.value, row.lane, row.due_at, now)


_TARGETS = {each.value: each for each in Target}
_STATES: dict[str | None, CaseState | None] = {None: None, **{each.value: each for each in CaseState}}


def _going(row: Row) -> Going:
    seq, case_id, ticket, attempt, target, lane, due_at, who, why, case_ticket, state, stage, topic, key, size = row
    known = (seq, str(case_id), ticket, attempt, _TARGETS[target], lane, due_at, who, why, case_ticket)
    return Going(*known, _STATES[state], stage or "", topic or "", key, size or 0)
