"""Changed copies of record bodies (the table `desk_edit`): proposed, agreed to, applied.

An edit changes the copy that goes out next. The original record is never touched, and every edit is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from towpath.core.clock import to_datetime
from towpath.core.events import Event, EventKind
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.db.event_log import check_who, check_why, commit_by_hand
from towpath.desk.cases.model import Case, CaseState
from towpath.desk.cases.store import HistoryEntry
from towpath.desk.edit_body import BodyDifference, StageInput, check_body, diff, kept, taken_by_flow, taken_by_topology
from towpath.desk.masks import NO_MASKS, Masks
from towpath.errors import BadEdit, FieldsMasked, NeedsAnother, Refused, StaleEdit, UnknownFlow
from towpath.flow.stage.store import StageStore

if TYPE_CHECKING:
    from towpath.desk.context import DeskContext
    from towpath.flow.flow import Flow


CHANGES = "changes"  # in the history of a case
PROPOSED = "proposed"  # what was done, in the history of a case, and
ATTEMPT = "attempt"  # the number of failures that it had then
# What waits in a lane lies there as it was sent: it is recalled first.
EDITABLE = frozenset({CaseState.OPEN, CaseState.PARKED})


class CaseEdits:
    """Proposes, applies and decides edits of cases, by one person or by two."""

    def __init__(self, parts: DeskContext) -> None:
        self._parts = parts
        self._stages = StageStore(parts.database)

    def check(self, case: Case, value: bytes, flow: Flow | None = None) -> str:
        """Whether a body could go into the case's flow; how far that is known, or `BadEdit`."""
        taken = self._taken(case, flow)
        check_body(value, taken, self._parts.settings.flow.max_record_bytes)
        return taken.says

    def edit(
        self,
        case_id: str,
        value: bytes,
        *,
        seen: SeenCase,
        who: str,
        why: str,
        flow: Flow | None = None,
        masks: Masks = NO_MASKS,
    ) -> EditResult:
        """Change the copy that goes out next, or propose that where it takes two persons."""
        check_who(who)
        check_why(why)
        with self._parts.database.read() as tx:
            before = self._parts.cases.read(tx, case_id)
        _check_sees(before, masks)
        checked = self.check(before, value, flow)

        def act(tx: Transaction) -> EditResult:
            case = self._editable(tx, case_id)
            last = self._parts.edits.last(tx, case.id)
            seen.check(case, last)
            changes = self._changes(tx, case, value)
            is_proposed = self._parts.settings.desk.second_person
            edit = self._parts.edits.add(tx, case.id, last + 1, value, who=who, why=why, is_proposed=is_proposed)
            if not is_proposed:
                self._apply(tx, case, edit.edit, who)
            self._tell(tx, case, PROPOSED if is_proposed else "edited", edit.edit, who, why, changes)
            return EditResult(edit, checked)

        return commit_by_hand(self._parts.database, act)

    def agree(self, case_id: str, edit: int, *, who: str, why: str, masks: Masks = NO_MASKS) -> Edit:
        """A second person lets a proposed edit go out next."""

        def act(tx: Transaction) -> Edit:
            case = self._parts.cases.read(tx, case_id)
            _check_sees(case, masks)
            self._proposed(tx, case, edit)
            case = self._editable(tx, case_id)
            self._check_not_failed_since(tx, case, edit)
            decided = self._decide(tx, case, edit, EditState.APPLIED, who)
            self._apply(tx, case, edit, who)
            self._tell(tx, case, "agreed", edit, who, check_why(why))
            return decided

        return commit_by_hand(self._parts.database, act)

    def refuse(self, case_id: str, edit: int, *, who: str, why: str) -> Edit:
        """Refuse a proposed edit: it does not go out."""

        def act(tx: Transaction) -> Edit:
            case = self._parts.cases.read(tx, case_id)
            decided = self._decide(tx, case, edit, EditState.REFUSED, who)
            self._tell(tx, case, "refused", edit, who, check_why(why))
            return decided

        return commit_by_hand(self._parts.database, act)

    def restore(self, case_id: str, *, seen: SeenCase, who: str, why: str) -> None:
        """Let the record itself go out next, and none of its edits."""

        def act(tx: Transaction) -> None:
            case = self._editable(tx, case_id)
            seen.check(case, self._parts.edits.last(tx, case.id))
            if case.edit == 0:
                raise BadEdit(f"case {case.seq} has no edit that would go out: there is nothing to take back")
            self._apply(tx, case, 0, check_who(who))
            self._tell(tx, case, "restored", case.edit, who, check_why(why))

        commit_by_hand(self._parts.database, act)

    def _editable(self, tx: Transaction, case_id: str) -> Case:
        self._parts.cases.read(tx, case_id)
        case = self._parts.cases.lock(tx, [case_id])[case_id]
        if case.state not in EDITABLE:
            only = " or ".join(sorted(EDITABLE))
            raise BadEdit(f"case {case.seq} is {case.state}: only what is {only} can be edited")
        return case

    def _changes(self, tx: Transaction, case: Case, value: bytes) -> list[BodyDifference]:
        """What it changes in the record itself: kept, since the record is let go when the case is settled."""
        body = self._parts.cases.bodies(tx, [case.id]).get(case.id)
        if body is None:
            raise BadEdit(f"case {case.seq} has no body: there is nothing to change")
        if body.value == value:
            raise BadEdit("nothing was changed, so nothing is written")
        original = self._parts.cases.originals(tx, [case.id])[case.id].value
        return [] if original is None else kept(diff(original, value))

    def _apply(self, tx: Transaction, case: Case, edit: int, who: str) -> None:
        if not self._parts.cases.set_edit(tx, case.id, edit, frm_edit=case.edit):
            raise StaleEdit(case.id, "another edit was applied", number=case.seq)
        self._parts.edits.overtake(tx, case.id, edit, who)

    def _decide(self, tx: Transaction, case: Case, edit: int, to: EditState, who: str) -> Edit:
        found = self._proposed(tx, case, edit)
        if to is EditState.APPLIED and found.who == check_who(who):
            raise NeedsAnother(f"{who} has made edit {edit} of case {case.seq}: another person has to agree to it")
        return self._parts.edits.decide(tx, case.id, edit, to, who)

    def _proposed(self, tx: Transaction, case: Case, edit: int) -> Edit:
        found = self._parts.edits.read(tx, case.id, edit)
        if found is None:
            raise BadEdit(f"case {case.seq} has no edit {edit}: there is nothing to decide")
        if found.state is EditState.PROPOSED:
            return found
        if found.decided_by == found.who:
            what = f"edit {edit} is {found.state} since {found.who} has made it: it takes no second person"
        else:
            what = f"edit {edit} was decided before: it is {found.state}, by {found.decided_by}"
        raise StaleEdit(case.id, what, number=case.seq)

    def _check_not_failed_since(self, tx: Transaction, case: Case, edit: int) -> None:
        """What was proposed for one failure may be wrong for the next."""
        for done in self._parts.history.of_case(tx, case.id):
            is_it = done.what == PROPOSED and done.data.get("edit") == edit
            if is_it and case.attempts > done.data.get(ATTEMPT, case.attempts):
                what = f"it has failed again since edit {edit} was proposed: refuse that, and edit it anew"
                raise StaleEdit(case.id, what, number=case.seq)

    def _taken(self, case: Case, flow: Flow | None) -> StageInput:
        if flow is not None:
            if flow.name != case.flow:
                raise Refused(f"case {case.seq} is of the flow {case.flow}, not of {flow.name}")
            return taken_by_flow(flow.nodes, case.topic)
        try:
            with self._parts.database.read() as tx:
                stage = self._stages.read(tx, case.flow, case.stage)
        except UnknownFlow:
            return StageInput()
        return taken_by_topology(stage.topology, case.topic)

    def _tell(
        self,
        tx: Transaction,
        case: Case,
        what: str,
        edit: int,
        who: str,
        why: str,
        changes: Sequence[BodyDifference] = (),
    ) -> None:
        data: dict[str, Any] = {"edit": edit}
        if changes:
            data[CHANGES] = [list(change) for change in changes]
        if what == PROPOSED:
            data[ATTEMPT] = case.attempts
        self._parts.history.add(tx, [HistoryEntry(what, who, why, case.id, data=data)])
        event = Event(EventKind.CASE_CHANGED_BY_HAND, case.id, who, why, {"what": what, "edit": edit})
        self._parts.event_log.record(tx, event)


@dataclass(frozen=True, slots=True)
class SeenCase:
    """A case as a person has read it before changing it. `edit` is the number of its newest edit."""

    state: CaseState
    attempts: int
    edit: int

    def check(self, case: Case, last_edit: int) -> None:
        """Raise `StaleEdit` when it is not so any more."""
        if case.state is not self.state:
            raise StaleEdit(case.id, f"it was {self.state} and is {case.state}", number=case.seq)
        if case.attempts != self.attempts:
            raise StaleEdit(case.id, f"it has failed again (attempt {case.attempts})", number=case.seq)
        if last_edit != self.edit:
            raise StaleEdit(case.id, f"edit {last_edit} was made", number=case.seq)


@dataclass(frozen=True, slots=True)
class EditResult:
    """A new edit, and how far its body was checked."""

    edit: Edit
    checked: str  # how far the body was checked, in words

    @property
    def is_proposed(self) -> bool:
        return self.edit.state is EditState.PROPOSED


class EditState(StrEnum):
    """How far an edit is."""

    PROPOSED = "proposed"  # a second person has to agree
    APPLIED = "applied"  # is what goes out next, unless a later one was applied
    REFUSED = "refused"  # by the second person
    OVERTAKEN = "overtaken"  # another edit was applied first, or the case has left the desk


_E = EditState
EDIT_MOVES: Mapping[EditState, frozenset[EditState]] = {
    _E.PROPOSED: frozenset({_E.APPLIED, _E.REFUSED, _E.OVERTAKEN}),
    _E.APPLIED: frozenset(),
    _E.REFUSED: frozenset(),
    _E.OVERTAKEN: frozenset(),
}


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
        """Which of some cases have an edit that waits for a second person, with the number of the newest one."""
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


def _check_sees(case: Case, masks: Masks) -> None:
    """A person with masks would write the marks of hidden fields into the record."""
    if masks.of(case.flow):
        raise FieldsMasked(f"some fields of {case.flow} are masked for you, so that you cannot edit its records")
