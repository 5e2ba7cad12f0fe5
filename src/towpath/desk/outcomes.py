"""Takes a portion of a topic of outcomes in: what was sent back and is loaded or filtered is resolved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from towpath import crash
from towpath.crash import CrashPoint
from towpath.db import Database
from towpath.desk.case import Case
from towpath.desk.case_state import CaseState
from towpath.desk.case_store import CaseStore, is_case_id
from towpath.desk.parking import Parking
from towpath.desk.position_store import DeskPosition, PositionStore
from towpath.flow.outcome_record import Fate, OutcomeRecord
from towpath.log.record import Record

WHO = "towpath"
LOADED = "loaded"


@dataclass(slots=True)
class OutcomeTaking:
    """Takes portions in, each in one transaction with the position that comes after it."""

    database: Database
    cases: CaseStore
    positions: PositionStore
    parking: Parking

    def take(self, at: DeskPosition, records: Sequence[Record], to: int) -> int:
        """Returns how many cases are resolved."""
        told = list(filter(None, map(_read, records)))
        resolved = 0
        with self.database.transaction() as tx:
            self.positions.move(tx, at, to, len(told))
            settling = [each for each in told if each.flow == at.flow and each.fate is not Fate.FAILED]
            known = self.cases.lock(tx, sorted({each.correlation for each in settling}))
            for why, ids in _resolved(settling, known).items():
                moved = self.cases.move(tx, ids, CaseState.RESOLVED, frm=(CaseState.REPLAYING,), who=WHO, why=why)
                self.parking.release(tx, moved)
                resolved += len(moved)
            crash.here(CrashPoint.DESK_OUTCOMES_BEFORE_COMMIT)
        crash.here(CrashPoint.DESK_OUTCOMES_AFTER_COMMIT)
        return resolved


def _read(record: Record) -> OutcomeRecord | None:
    """What is no outcome of a case is nobody's: it says nothing about any record."""
    try:
        found = OutcomeRecord.read(record)
    except (KeyError, ValueError):
        return None
    return found if is_case_id(found.correlation) else None


def _resolved(told: Sequence[OutcomeRecord], known: dict[str, Case]) -> dict[str, list[str]]:
    """The cases that are done, by why. An outcome of another attempt than the one that is out says nothing."""
    found: dict[str, list[str]] = defaultdict(list)
    for each in told:
        case = known.get(each.correlation)
        if case is not None and case.flow == each.flow and each.attempt == case.next_attempt:
            found[LOADED if each.fate is Fate.LOADED else f"filtered by {each.step}"].append(case.id)
    return found
