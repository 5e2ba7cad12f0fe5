"""The `desk_edit` table: changed copies of bodies. The original is never touched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from towpath.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.db.text import storable
from towpath.desk.job_state import EditState
from towpath.errors import StaleEdit


@dataclass(frozen=True, slots=True)
class Edit:
    """A changed body of a case. `who` is a person, or a rule of learned corrections as `rule:7`."""

    case_id: str
    edit: int
    value: bytes
    state: EditState
    who: str
    why: str
    made_at: datetime
    decided_by: str | None
    decided_at: datetime | None

    @classmethod
    def from_row(cls, row: Row) -> Edit:
        case_id, edit, value, state, who, why, made_at, decided_by, decided_at = row
        decided = None if decided_at is None else to_datetime(decided_at)
        return cls(
            str(case_id), edit, bytes(value), EditState(state), who, why, to_datetime(made_at), decided_by, decided
        )


class EditStore:
    """Reads and decides edits inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk", "edits", database.dialect)

    def add(
        self, tx: Transaction, case_id: str, edit: int, value: bytes, *, who: str, why: str, is_proposed: bool = False
    ) -> Edit:
        """A new edit under a number that must be the next one; raises `StaleEdit` when somebody was faster."""
        values = {
            "case": case_id,
            "edit": edit,
            "value": value,
            "state": EditState.PROPOSED if is_proposed else EditState.APPLIED,
            "who": storable(who),
            "why": storable(why),
            "decided_by": None if is_proposed else storable(who),
            "is_decided": int(not is_proposed),
        }
        rows = tx.rows(self._sql["add_edit"], values)
        if not rows:
            raise StaleEdit(case_id, "somebody else has made another edit")
        return Edit.from_row(rows[0])

    def last(self, tx: Transaction, case_id: str) -> int:
        """The number of its newest edit, whatever became of that; 0 if there is none."""
        return int(tx.rows(self._sql["last_edit"], {"case": case_id})[0][0])

    def of_case(self, tx: Transaction, case_id: str) -> list[Edit]:
        """Oldest first."""
        return [Edit.from_row(row) for row in tx.rows(self._sql["list_edits"], {"case": case_id})]

    def read(self, tx: Transaction, case_id: str, edit: int) -> Edit | None:
        rows = tx.rows(self._sql["read_edit"], {"case": case_id, "edit": edit})
        return Edit.from_row(rows[0]) if rows else None

    def proposed_among(self, tx: Transaction, ids: Sequence[str]) -> dict[str, int]:
        """Those of some cases of which an edit waits for a second person, with the number of the newest one."""
        rows = tx.rows(self._sql["proposed_among"], {"ids": json.dumps(list(ids))})
        return {str(id): int(edit) for id, edit in rows}

    def decide(self, tx: Transaction, case_id: str, edit: int, to: EditState, who: str) -> Edit:
        """A proposal is applied or refused; raises `StaleEdit` when that was decided before."""
        rows = tx.rows(self._sql["decide_edit"], {"case": case_id, "edit": edit, "to": to, "who": storable(who)})
        if not rows:
            raise StaleEdit(case_id, f"edit {edit} was decided before")
        return Edit.from_row(rows[0])

    def overtake(self, tx: Transaction, case_id: str, by: int, who: str) -> int:
        """What was proposed before and not decided is overtaken by this one; returns how many."""
        return tx.run(self._sql["overtake_edits"], {"case": case_id, "edit": by, "who": storable(who)})
