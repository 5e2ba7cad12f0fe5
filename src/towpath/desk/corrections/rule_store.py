"""The table `desk_rule`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.db.text import storable
from towpath.desk.corrections.rule import Rule, RuleKind
from towpath.desk.corrections.rule_state import MOVES, RuleState
from towpath.errors import IllegalRuleMove, UnknownRule


class RuleStore:
    """Reads and moves rules inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk.corrections", "rules", database.dialect)

    def add(self, tx: Transaction, rules: Iterable[Rule]) -> list[Rule]:
        """Those that were not known, as they are stored now."""
        found = (tx.rows(self._sql["add_rule"], _values(rule)) for rule in rules)
        return [self.read(tx, rows[0][0]) for rows in found if rows]

    def read(self, tx: Transaction, id: int) -> Rule:
        """One of them; raises `UnknownRule`."""
        rows = tx.rows(self._sql["read_rule"], {"id": id})
        if not rows:
            raise UnknownRule(id)
        return _rule(rows[0])

    def list(self, tx: Transaction, flow: str | None = None, state: RuleState | None = None) -> list[Rule]:
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
    ) -> Rule:
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

    def history(self, tx: Transaction, id: int) -> dict[str, Any]:
        """Who has moved it last, why, and when it was found and moved, in microseconds."""
        [row] = tx.rows(self._sql["rule_history"], {"id": id})
        return dict(zip(("who", "why", "made_at", "moved_at"), row, strict=True))

    def version(self, tx: Transaction, flow: str) -> tuple[Any, ...]:
        """Another one whenever the rules of a flow, or what speaks for them, have changed."""
        return tuple(map(int, tx.rows(self._sql["version"], {"flow": flow})[0]))


def _values(rule: Rule) -> dict[str, Any]:
    return {
        "flow": rule.flow,
        "field": rule.field,
        "kind": rule.kind,
        "deciders": ",".join(rule.deciders),
        "support": rule.support,
        "confidence": rule.confidence,
    }


def _rule(row: Row) -> Rule:
    id, flow, field, kind, deciders, state, support, confidence, right, wrong = row
    by = tuple(filter(None, deciders.split(",")))
    return Rule(flow, field, RuleKind(kind), by, id, RuleState(state), support, confidence, right, wrong)
