"""The `desk_policy` table: every version of the rules of flows, from their code and from operators."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from towpath.core.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.desk.policies.rules import NamedRule, Policies
from towpath.errors import BadPolicy, ChangedMeanwhile
from towpath.policy import Rule

MOST_RULES = 200
FROM_CODE = "the flow's code"


class PolicyOrigin(StrEnum):
    """Who has made a rule. Those of operators come before those of the flow's code."""

    OPERATOR = "operator"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the rules of a flow."""

    flow: str
    origin: PolicyOrigin
    version: int
    stored: dict[str, Any]
    who: str
    why: str
    made_at: datetime

    @classmethod
    def from_row(cls, row: Row) -> Self:
        flow, origin, version, policies, who, why, made_at = row
        return cls(flow, PolicyOrigin(origin), version, json.loads(policies), who, why, to_datetime(made_at))

    @property
    def rules(self) -> list[NamedRule]:
        """As they were stored; what a newer Towpath has stored and this one cannot read is a `BadPolicy`."""
        return [NamedRule(self._id(at), Rule.from_json(each)) for at, each in enumerate(self.stored["policies"])]

    @property
    def error_topic(self) -> str | None:
        """Of code: the flow's error topic, when it has a name of its own."""
        return self.stored.get("error_topic")

    def ids_like(self, rule: Rule) -> list[str]:
        """What cases call those of its rules that are the same as this one."""
        said = rule.to_json()
        return [self._id(at) for at, each in enumerate(self.stored["policies"]) if each == said]

    def _id(self, at: int) -> str:
        return f"{self.flow}/{self.origin}/{self.version}/{at}"


class PolicyStore:
    """Reads and writes versions inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.desk.policies", "policies", database.dialect)
        self._seen: list[Row] = []
        self._rules: dict[str, list[NamedRule]] = {}

    def policies(self, tx: Transaction) -> Policies:
        """All rules that count now. Those that have not changed since the last call are not read again."""
        newest = tx.rows(self._sql["newest"], {})
        if newest != self._seen:
            self._rules = self._read(tx)
            self._seen = newest
        return Policies(self._rules, to_datetime(self._database.now()))

    def _read(self, tx: Transaction) -> dict[str, list[NamedRule]]:
        found: dict[str, list[NamedRule]] = {}
        for version in sorted(self.latest(tx), key=lambda each: each.origin is PolicyOrigin.CODE):
            found.setdefault(version.flow, []).extend(version.rules)
        return found

    def latest(self, tx: Transaction, flow: str | None = None) -> list[Version]:
        """What counts now, of one flow or of all."""
        return [Version.from_row(row) for row in tx.rows(self._sql["latest"], {"flow": flow})]

    def current(self, tx: Transaction, flow: str, origin: PolicyOrigin) -> Version | None:
        """What counts now of one origin."""
        return next((each for each in self.latest(tx, flow) if each.origin is origin), None)

    def error_topics(self, tx: Transaction) -> dict[str, str | None]:
        """By flow, as its code has declared it; None: it has the usual name."""
        return {each.flow: each.error_topic for each in self.latest(tx) if each.origin is PolicyOrigin.CODE}

    def versions(self, tx: Transaction, flow: str) -> list[Version]:
        """All of a flow, the newest first."""
        return [Version.from_row(row) for row in tx.rows(self._sql["versions"], {"flow": flow})]

    def declare(self, tx: Transaction, flow: str, error_topic: str | None, rules: Sequence[Rule]) -> Version | None:
        """What the flow's code says; None when it said so before."""
        stored = {"error_topic": error_topic, "policies": _stored(rules)}
        before = self.current(tx, flow, PolicyOrigin.CODE)
        if before is not None and before.stored == stored:
            return None
        if before is None and not rules and error_topic is None:
            return None  # nothing is said
        number = 1 if before is None else before.version + 1
        return self._add(tx, flow, PolicyOrigin.CODE, number, stored, FROM_CODE, "the flow was started")

    def set(
        self, tx: Transaction, flow: str, rules: Sequence[Rule], *, who: str, why: str, after: int | None = None
    ) -> Version:
        """What operators say from now on, in place of what they said before.

        `ChangedMeanwhile` when another was faster, or when it is not version `after` that counts now.
        """
        before = self.current(tx, flow, PolicyOrigin.OPERATOR)
        number = 0 if before is None else before.version
        if after is not None and after != number:
            raise ChangedMeanwhile(f"version {number} of the rules for {flow} counts by now, not {after}; look again")
        return self._add(tx, flow, PolicyOrigin.OPERATOR, number + 1, {"policies": _stored(rules)}, who, why)

    def _add(
        self, tx: Transaction, flow: str, origin: PolicyOrigin, version: int, stored: dict[str, Any], who: str, why: str
    ) -> Version:
        named = {"flow": flow, "origin": origin, "version": version}
        said = {"policies": json.dumps(stored), "who": storable(who), "why": storable(why)}
        rows = tx.rows(self._sql["add_version"], {**named, **said})
        if not rows:
            raise ChangedMeanwhile(f"somebody else has changed the rules for {flow} just now; look again")
        return Version.from_row(rows[0])

    # What rules have ignored

    def ids_of(self, tx: Transaction, flow: str, rule: Rule) -> list[str]:
        """What cases call this rule, in all versions that have it."""
        return [id for version in self.versions(tx, flow) for id in version.ids_like(rule)]

    def ignored_by(self, tx: Transaction, flow: str, rules: Collection[str], limit: int) -> list[str]:
        """Some cases that these rules ignore."""
        params = {"flow": flow, "rules": json.dumps(list(rules)), "limit": limit}
        return [str(id) for (id,) in tx.rows(self._sql["ignored_by"], params)]

    def count_ignored_by(self, tx: Transaction, flow: str, rules: Collection[str]) -> int:
        params = {"flow": flow, "rules": json.dumps(list(rules))}
        return int(tx.rows(self._sql["count_ignored_by"], params)[0][0])


def _stored(rules: Sequence[Rule]) -> list[dict[str, Any]]:
    if len(rules) > MOST_RULES:
        raise BadPolicy(f"a flow has at most {MOST_RULES} rules of one origin, not {len(rules)}")
    # Through text and back, so that it is equal to what will be read.
    stored: list[dict[str, Any]] = json.loads(json.dumps([rule.to_json() for rule in rules]))
    return stored
