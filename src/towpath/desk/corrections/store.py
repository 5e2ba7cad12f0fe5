"""The tables of learned corrections.

`RuleStore`: `desk_rule`. `TouchedStore`: `desk_touched`, what rules changed without asking, and whether it was right.
`EvidenceStore`: `desk_evidence`, `desk_learning`, `desk_learned` and `desk_verdict`, what was counted and up to
where.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from towpath.core.clock import to_datetime, to_micros
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.desk.cases.model import CaseState
from towpath.desk.corrections.model import MOVES, CorrectionRule, Count, Counts, RuleKind, RuleState
from towpath.errors import CountedAlready, IllegalRuleMove, UnknownRule
from towpath.flow.delivery.positions import OffsetRange

_COLUMNS = ("case_id", "edit", "field", "rule_id", "before", "after", "attempt", "verdict", "made_at")
UNKNOWN, RIGHT, WRONG = "unknown", "right", "wrong"  # verdicts

_BY_RULE = "rule:%"


class RuleStore:
    """Reads and moves rules inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk.corrections", "rules", database.dialect)

    def add(self, tx: Transaction, rules: Iterable[CorrectionRule]) -> list[CorrectionRule]:
        """Add rules; returns those that were not known, as they are stored now."""
        found = (tx.rows(self._sql["add_rule"], _values(rule)) for rule in rules)
        return [self.read(tx, rows[0][0]) for rows in found if rows]

    def read(self, tx: Transaction, id: int) -> CorrectionRule:
        """One of them; raises `UnknownRule`."""
        rows = tx.rows(self._sql["read_rule"], {"id": id})
        if not rows:
            raise UnknownRule(id)
        return _rule(rows[0])

    def list(self, tx: Transaction, flow: str | None = None, state: RuleState | None = None) -> list[CorrectionRule]:
        """In the order in which they were found."""
        return [_rule(row) for row in tx.rows(self._sql["list_rules"], {"flow": flow, "state": state})]

    def move(
        self,
        tx: Transaction,
        id: int,
        to: RuleState,
        *,
        who: str,
        why: str,
        support: int | None = None,
        confidence: float | None = None,
    ) -> CorrectionRule:
        """Raises `UnknownRule` or `IllegalRuleMove`. Turned on, it may be given other thresholds."""
        sources = [state for state, targets in MOVES.items() if to in targets]
        values = {"id": id, "to": to, "who": storable(who), "why": storable(why), "states": json.dumps(sources)}
        rows = tx.rows(self._sql["move_rule"], {**values, "support": support, "confidence": confidence})
        if not rows:
            raise IllegalRuleMove(id, self.read(tx, id).state, to, sources)
        return _rule(rows[0])

    def judge(self, tx: Transaction, id: int, right: int, wrong: int) -> None:
        """What it did was right so often, and wrong so often."""
        tx.run(self._sql["judge_rule"], {"id": id, "was_right": right, "was_wrong": wrong})

    def version(self, tx: Transaction, flow: str) -> tuple[Any, ...]:
        """Another one whenever the rules of a flow, or what speaks for them, have changed."""
        return tuple(map(int, tx.rows(self._sql["version"], {"flow": flow})[0]))


def _values(rule: CorrectionRule) -> dict[str, Any]:
    return {
        "flow": rule.flow,
        "field": rule.field,
        "kind": rule.kind,
        "deciders": ",".join(rule.deciders),
        "support": rule.support,
        "confidence": rule.confidence,
    }


def _rule(row: Row) -> CorrectionRule:
    id, flow, field, kind, deciders, state, support, confidence, right, wrong = row
    by = tuple(filter(None, deciders.split(",")))
    return CorrectionRule(flow, field, RuleKind(kind), by, id, RuleState(state), support, confidence, right, wrong)


class TouchedStore:
    """Writes down and judges corrections inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.desk.corrections", "touched", database.dialect)

    def add(self, tx: Transaction, touches: Iterable[Touch]) -> None:
        """In the transaction that changes the records."""
        now = self._database.now()
        rows = [(*touch, UNKNOWN, now) for touch in touches]
        if rows:
            tx.insert_many("desk_touched", _COLUMNS, rows)

    def to_judge(self, tx: Transaction, limit: int) -> list[str]:
        """Some cases with corrections of which it is known by now whether they were right."""
        return [str(id) for (id,) in tx.rows(self._sql["to_judge"], {"limit": limit})]

    def judge(self, tx: Transaction, ids: Sequence[str]) -> tuple[Counter[int], Counter[int]]:
        """How often which rule was right, and wrong, among what was not known before of these cases."""
        rows = tx.rows(self._sql["judge"], {"ids": json.dumps(list(ids))})
        right = Counter(int(rule) for rule, verdict in rows if verdict == RIGHT)
        return right, Counter(int(rule) for rule, verdict in rows if verdict == WRONG)

    def forget(self, tx: Transaction, before_us: int, rule: int, limit: int) -> int:
        """Delete some of what a rule has changed before that; returns how many."""
        return tx.run(self._sql["forget_touched"], {"rule": rule, "before": before_us, "limit": limit})

    def of_rule(self, tx: Transaction, rule: int, limit: int, before: TouchedMark | None = None) -> list[Touched]:
        """The newest first; `before` is the mark of the last one of the page before."""
        values = (before or NEWEST)._asdict()
        rows = tx.rows(self._sql["list_touched"], {"rule": rule, "limit": limit, **values})
        return [_touched(row) for row in rows]

    def standing(self, tx: Transaction, rule: int, limit: int) -> dict[str, int]:
        """Cases that still have a correction of the rule in what goes out next, with the number of that edit."""
        rows = tx.rows(self._sql["open_with_rule"], {"rule": rule, "limit": limit})
        return {str(id): int(edit) for id, edit in rows}

    def tallies(self, tx: Transaction, flow: str) -> dict[int, Counter[str]]:
        """By rule, how often which verdict."""
        found: dict[int, Counter[str]] = {}
        for rule, verdict, count in tx.rows(self._sql["count_touched"], {"flow": flow}):
            found.setdefault(int(rule), Counter())[verdict] = int(count)
        return found

    def agreements(self, tx: Transaction, flow: str) -> dict[int | None, Counter[bool]]:
        """By rule, how often operators have put what it suggested, and something else."""
        found: dict[int | None, Counter[bool]] = {}
        for rule, agrees, count in tx.rows(self._sql["count_verdicts"], {"flow": flow}):
            found.setdefault(None if rule is None else int(rule), Counter())[bool(agrees)] = int(count)
        return found


@dataclass(frozen=True, slots=True)
class Touched:
    """A touch as the table has it, with what the case is now; without a state the case is gone."""

    case_id: str
    edit: int
    field: str
    rule_id: int
    before: str | None
    after: str
    verdict: str
    made_at: datetime
    state: CaseState | None
    input: str | None  # `orders/3/17`

    @property
    def mark(self) -> TouchedMark:
        return TouchedMark(to_micros(self.made_at), self.case_id, self.edit, self.field)


class TouchedMark(NamedTuple):
    """Where a page of what a rule has touched ended; the time is in microseconds."""

    made_at: int
    case_id: str
    edit: int
    field: str


NEWEST = TouchedMark(2**63 - 1, "ffffffff-ffff-ffff-ffff-ffffffffffff", 0, "")  # before this is everything


class Touch(NamedTuple):
    """One field of one record that a rule has changed. Values are tokens; None: there was nothing."""

    case_id: str
    edit: int
    field: str
    rule_id: int
    before: str | None
    after: str
    attempt: int  # failures so far


def _touched(row: Row) -> Touched:
    id, edit, field, rule, before, after, verdict, made_at, state, topic, partition, offset = row
    where = None if topic is None else f"{topic}/{partition}/{offset}"
    now = None if state is None else CaseState(state)
    return Touched(str(id), edit, field, rule, before, after, verdict, to_datetime(made_at), now, where)


class EvidenceStore:
    """Adds counts inside a transaction that the caller opens, in which what was counted is marked as such."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk.corrections", "evidence", database.dialect)

    def add(self, tx: Transaction, flow: str, *, taken: Counts | None = None, edited: Counts | None = None) -> None:
        """On top of what is there. In one order, so that two never wait for each other in a circle."""
        first, second = taken or Counts(), edited or Counts()
        rows = [(*count, first[count], second[count]) for count in sorted({*first, *second})]
        if rows:
            tx.run(self._sql["add_evidence"], {"flow": flow, "rows": json.dumps(rows)})

    def read(self, tx: Transaction, flow: str) -> Counts:
        """All of a flow."""
        rows = tx.rows(self._sql["read_evidence"], {"flow": flow})
        return Counts({Count(*row[:-1]): row[-1] for row in rows})

    def size(self, tx: Transaction, flow: str) -> int:
        return int(tx.rows(self._sql["count_evidence"], {"flow": flow})[0][0])

    def strongest(
        self, tx: Transaction, flow: str, field: str, aspect: str, deciders: str, limit: int
    ) -> list[tuple[str, str, int, int]]:
        """Given, value, and how many records and edits say so."""
        which = {"flow": flow, "field": field, "aspect": aspect, "deciders": deciders, "limit": limit}
        return [(str(a), str(b), int(c), int(d)) for a, b, c, d in tx.rows(self._sql["evidence_of_rule"], which)]

    # Positions

    def positions(self, tx: Transaction, flow: str) -> dict[tuple[str, int], int]:
        """By topic id and partition."""
        rows = tx.rows(self._sql["read_positions"], {"flow": flow})
        return {(str(id), int(partition)): int(position) for id, partition, position in rows}

    def move(self, tx: Transaction, flow: str, ranges: Iterable[OffsetRange]) -> None:
        """Note that these ranges were counted; `CountedAlready` when another learner has counted one of them."""
        for each in sorted(ranges):
            place = {"flow": flow, "topic_id": each.topic_id, "partition": each.partition}
            tx.rows(self._sql["begin_partition"], {**place, "topic": each.topic, "position": each.start})
            if not tx.rows(self._sql["move_position"], {**place, "from": each.start, "to": each.stop}):
                raise CountedAlready(str(each))

    # Edits

    def edits(self, tx: Transaction, flow: str, limit: int) -> list[EditToLearn]:
        """The edits that were not counted, oldest first."""
        rows = tx.rows(self._sql["edits_to_learn"], {"flow": flow, "limit": limit, "by_rule": _BY_RULE})
        return [EditToLearn(str(row[0]), row[1], bytes(row[2]), *row[3:]) for row in rows]

    def mark(self, tx: Transaction, edit: EditToLearn) -> bool:
        """Note that an edit is counted; false when it was before."""
        return bool(tx.rows(self._sql["mark_learned"], {"case": edit.case_id, "edit": edit.edit}))

    # Their time is over

    def forget_marks(self, tx: Transaction, limit: int) -> int:
        """Let go of some marks whose cases are gone; returns how many."""
        return tx.run(self._sql["forget_learned"], {"limit": limit})

    def old(self, tx: Transaction, before_us: int, limit: int) -> list[Row]:
        """Some counts that nothing has raised since then."""
        return tx.rows(self._sql["old_evidence"], {"before": before_us, "limit": limit})

    def forget(self, tx: Transaction, rows: Sequence[Row], before_us: int) -> int:
        """Delete those of them of which that is still so; returns how many."""
        return tx.run(
            self._sql["forget_evidence"], {"rows": json.dumps([list(row) for row in rows]), "before": before_us}
        )

    def forget_verdicts(self, tx: Transaction, before_us: int, limit: int) -> int:
        """Delete some verdicts of operators from before then; returns how many."""
        return tx.run(self._sql["forget_verdicts"], {"before": before_us, "limit": limit})

    def verdict(
        self, tx: Transaction, flow: str, edit: EditToLearn, field: str, rule: int | None, agrees: bool | None
    ) -> None:
        """What an operator has put where a rule has, or has not, made a suggestion."""
        values: dict[str, Any] = {"case": edit.case_id, "edit": edit.edit, "flow": flow, "field": field, "rule": rule}
        tx.run(self._sql["add_verdict"], {**values, "agrees": None if agrees is None else int(agrees)})


class EditToLearn(NamedTuple):
    """An edit with which a case was resolved, and where the record lies as it was before."""

    case_id: str
    edit: int
    value: bytes
    message: str
    topic: str
    partition: int
    offset: int
