"""What is known for flows, kept in memory and read again when it has changed."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from towpath.db import Database
from towpath.desk.corrections.evidence_store import EvidenceStore
from towpath.desk.corrections.knowledge import Knowledge
from towpath.desk.corrections.rule_state import RuleState
from towpath.desk.corrections.rule_store import RuleStore

LOOK_S = 1.0  # between two questions whether something has changed


@dataclass(frozen=True, slots=True)
class _Known:
    version: tuple[Any, ...]
    looked_at: float
    has_rules_on: bool
    knowledge: Knowledge | None  # None: nobody has asked for it


class Knowing:
    """Used by several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rules = RuleStore(database)
        self._evidence = EvidenceStore(database)
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}

    def of(self, flow: str) -> Knowledge:
        """What is known for a flow at this moment."""
        with self._lock:
            known = self._look(flow, is_needed=True)
        assert known.knowledge is not None  # noqa: S101 - it was needed
        return known.knowledge

    def is_fresh(self, flow: str) -> bool:
        """Whether it was looked at within the last second: then the database is not asked."""
        known = self._known.get(flow)
        return known is not None and time.monotonic() - known.looked_at < LOOK_S

    def for_automatic(self, flow: str) -> Knowledge | None:
        """The same, perhaps a second old; None where no rule is on: most flows need nothing of this in memory."""
        with self._lock:
            known = self._known[flow] if self.is_fresh(flow) else self._look(flow)
        return known.knowledge if known.has_rules_on else None

    def _look(self, flow: str, *, is_needed: bool = False) -> _Known:
        before = self._known.get(flow)
        with self._database.read() as tx:
            version = self._rules.version(tx, flow)
            is_same = before is not None and before.version == version
            if before is not None and is_same and (before.knowledge is not None or not is_needed):
                has_rules_on, knowledge = before.has_rules_on, before.knowledge
            else:
                rules = self._rules.list(tx, flow)
                has_rules_on, knowledge = any(rule.state is RuleState.ON for rule in rules), None
                if has_rules_on or is_needed:
                    knowledge = Knowledge(rules, self._evidence.read(tx, flow))
        found = self._known[flow] = _Known(version, time.monotonic(), has_rules_on, knowledge)
        return found
