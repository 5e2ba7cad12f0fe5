"""Makes corrections: on demand (`CorrectAction`), and during intake where a policy says so (`LearnedAutoEditor`).

On demand, what would be changed is found out before the transaction, since that takes longer than one may last. A
case that has changed since is left as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from towpath.db import Database, Queries, Transaction
from towpath.db.database import storable
from towpath.desk.actions.actions import CaseAction, refusal_without_body
from towpath.desk.cases.model import Body, Case, CaseState
from towpath.desk.cases.store import AttemptStore, CaseStore, HistoryEntry, HistoryStore
from towpath.desk.corrections.knowledge import Knowledge, KnowledgeCache
from towpath.desk.corrections.model import CorrectionRule, Doubt, RuleState, token
from towpath.desk.corrections.proposer import Correction, correction
from towpath.desk.corrections.store import RuleStore, Touch, TouchedStore
from towpath.desk.edits import CHANGES, EditState, EditStore
from towpath.desk.policies.rules import HEADER, AutoEdit, RuleEdit, marked
from towpath.desk.replay.outbox import OutboxWriter
from towpath.desk.replay.recall import ReplayRoute, RouteSubject, route_back
from towpath.errors import BadValue, Refused
from towpath.flow.records.reentry import CORRECTED
from towpath.log.record import encode_headers
from towpath.settings import DeskSettings

if TYPE_CHECKING:
    from towpath.desk.context import Maker
    from towpath.flow.failures import RecordFailure


PORTION = 100  # bodies that are read at once
MOST_AT_ONCE = 500  # cases that are changed in one transaction, which SQLite is to have done within 250 ms
_EDIT = ("case_id", "edit", "value", "state", "who", "why", "made_at", "decided_by", "decided_at")


class CorrectAction(CaseAction):
    """Change records as rules say that are on, and as one says that the person names; then send them back."""

    what, verb = "corrected", "correct"
    frm = frozenset({CaseState.OPEN})
    most_at_once = MOST_AT_ONCE

    def __init__(
        self,
        settings: DeskSettings,
        database: Database,
        cache: KnowledgeCache,
        read_blob: Callable[[str], bytes],
        rule: int | None,
        *,
        replays: bool,
    ) -> None:
        self._database = database
        self._cache = cache
        self._read_blob = read_blob
        self._rule = rule
        self._replays = replays
        self._cases = CaseStore(database)
        self._attempts = AttemptStore(database)
        self._touched = TouchedStore(database)
        self._edits = EditStore(database)
        self._history = HistoryStore(database)
        self._sends = OutboxWriter(database)
        self._sql = Queries("towpath.desk.corrections", "suggestions", database.dialect)
        self._found: dict[str, CorrectionPlan | str] = {}
        self.to = CaseState.REPLAYING if replays else None
        self._takes_two = settings.second_person
        self._named: CorrectionRule | None = None

    def check(self) -> None:
        """Whether the rule that is named may be used."""
        if self._rule is None:
            return
        with self._database.read() as tx:
            rule = self._named = RuleStore(self._database).read(tx, self._rule)
        if not rule.can_suggest:
            raise BadValue(f"rule {rule.id} is {rule.state}: it says nothing")
        if self._takes_two and rule.state is not RuleState.ON:
            raise BadValue(f"rule {rule.id} is not on, and edits take two persons here: turn it on first")

    @property
    def data(self) -> dict[str, Any]:
        return {"rule": self._rule, "replays": self._replays}

    def route(self, case: RouteSubject) -> ReplayRoute | None:
        return route_back(case) if self._replays else None

    # Before the transaction

    def unready(self, cases: Iterable[RouteSubject]) -> list[RouteSubject]:
        return [case for case in cases if case.id not in self._found and case.state in self.frm]

    def get_ready(self, cases: Sequence[RouteSubject]) -> None:
        try:
            self.check()
        except Refused as reason:  # it was possible when the job was asked for
            self._found |= {case.id: str(reason) for case in cases}
            return
        for begin in range(0, len(cases), PORTION):
            ids = [case.id for case in cases[begin : begin + PORTION]]
            with self._database.read() as tx:
                whole, bodies = self._cases.some(tx, ids), self._cases.bodies(tx, ids)
                proposed = self._edits.proposed_among(tx, ids)
                kept = {str(id) for (id,) in tx.rows(self._sql["kept_among"], {"ids": json.dumps(ids)})}
            for id in ids:
                self._found[id] = "it is gone"
            for id, case in whole.items():
                self._found[id] = self._look(case, bodies.get(id), id in proposed, id in kept)

    def _look(self, case: Case, body: Body | None, is_proposed: bool, is_kept: bool) -> CorrectionPlan | str:
        if body is None:
            return refusal_without_body(case) or "it has no body: there is nothing to correct"
        if is_proposed:
            return "an edit of it waits for a second person"
        if is_kept:
            return f"it was corrected before and kept (edit {case.edit}): replay it"
        if any(name == CORRECTED for name, _ in body.headers):
            return "a rule has changed it before, and it has failed again"
        try:
            value = body.read(self._read_blob) or b""
        except OSError:
            return "its body is in a file that is not to be had here"
        found = correction(self._knowledge(case.flow), value, case.message)
        if isinstance(found, Doubt):
            return f"nothing is changed: {found}"
        if self._rule is not None and self._rule not in {each.rule_id for each in found.changes}:
            return f"rule {self._rule} says nothing about it"
        return CorrectionPlan(case, encode_headers(body.headers) or "[]", found)

    def _knowledge(self, flow: str) -> Knowledge:
        known = self._cache.of(flow)
        if self._named is None or self._named.flow != flow:
            return known
        return known.with_rules([replace(self._named, state=RuleState.ON)])

    def refusal(self, case: RouteSubject) -> str | None:
        found = self._found.get(case.id)
        return found if isinstance(found, str) else None

    # In the transaction

    def do(self, tx: Transaction, cases: Sequence[RouteSubject], who: str, why: str) -> list[str]:
        now = self._cases.some(tx, [case.id for case in cases])
        ready = [
            found
            for case in now.values()
            if isinstance(found := self._found.get(case.id), CorrectionPlan) and found.is_still(case)
        ]
        if not ready:
            return []
        made = self._edit(tx, ready)
        self._tell(tx, made, ready, who, why)
        ids = [each.case_id for each in made]
        if self._replays:
            sent = [now[id] for id in ids]
            self._sends.replay(tx, cast("Sequence[Case]", sent), delay_s=None, frm=self.frm, who=who, why=why)
        for id in ids:
            self._found.pop(id)  # done: a job keeps no bodies in memory
        return ids

    def _edit(self, tx: Transaction, ready: Sequence[CorrectionPlan]) -> list[RuleEdit]:
        """The edits as applied, as what goes out next, and as touched by their rules."""
        ids = json.dumps([found.case.id for found in ready])
        last = {str(id): int(edit) for id, edit in tx.rows(self._sql["last_edits"], {"ids": ids})}
        made = [
            RuleEdit(found.case.id, last.get(found.case.id, 0) + 1, found.case.attempts, mended_by(found.correction))
            for found in ready
        ]
        moment = self._database.now()
        tx.insert_many("desk_edit", _EDIT, (_edit_row(each, moment) for each in made))
        tx.run(self._sql["set_edits"], {"rows": json.dumps([(each.case_id, each.edit) for each in made])})
        headers = zip(made, ready, strict=True)
        self._attempts.set_headers(tx, {each.case_id: marked(found.headers, each.mended) for each, found in headers})
        self._touched.add(tx, (touch for each in made for touch in touches_of(each)))
        return made

    def _tell(
        self, tx: Transaction, made: Sequence[RuleEdit], ready: Sequence[CorrectionPlan], who: str, why: str
    ) -> None:
        self._history.add(
            tx,
            (
                HistoryEntry(self.what, who, why, each.case_id, data=_said(each, found.correction))
                for each, found in zip(made, ready, strict=True)
            ),
        )


@dataclass(frozen=True, slots=True)
class CorrectionPlan:
    """What would be done to a case, as it was when that was found out."""

    case: Case
    headers: str
    correction: Correction

    def is_still(self, now: Case) -> bool:
        then = self.case
        return (now.state, now.attempts, now.edit, now.ticket) == (then.state, then.attempts, then.edit, then.ticket)


def correct_maker(settings: DeskSettings, database: Database, read_blob: Callable[[str], bytes]) -> Maker:
    """What makes the act of a bulk job of the kind `correct`."""
    cache = KnowledgeCache(database)

    def make(arguments: Mapping[str, Any]) -> CaseAction:
        rule = arguments.get("rule")
        return CorrectAction(
            settings,
            database,
            cache,
            read_blob,
            None if rule is None else int(rule),
            replays=bool(arguments.get("replays", True)),
        )

    return make


def _edit_row(made: RuleEdit, moment: int) -> tuple[Any, ...]:
    mended = made.mended
    who, why = storable(mended.who), storable(mended.why)
    return made.case_id, made.edit, mended.value, EditState.APPLIED.value, who, why, moment, who, moment


def _said(made: RuleEdit, found: Correction) -> dict[str, Any]:
    changes = [[each.field, token(each.before), token(each.after)] for each in found.changes]
    return {"edit": made.edit, "by": made.mended.who, CHANGES: changes}


class LearnedAutoEditor:
    """Corrects records during intake, inside its transaction. So a thread of its own reads what is known."""

    def __init__(self, database: Database) -> None:
        self._cache = KnowledgeCache(database)
        self._touched = TouchedStore(database)
        self._reader = ThreadPoolExecutor(1, "corrections")

    def automatic(self, flow: str, stage: str, value: bytes, failure: RecordFailure) -> AutoEdit | None:
        """The correction that is sure enough to be made without a person; None: there is none."""
        knowledge = self._known(flow)
        found = None if knowledge is None else correction(knowledge, value, failure.message)
        if found is None or isinstance(found, Doubt):
            return None
        return mended_by(found)

    def made(self, tx: Transaction, made: Sequence[RuleEdit]) -> None:
        """Write down what was touched, in the transaction that writes the edits."""
        self._touched.add(tx, (touch for each in made for touch in touches_of(each)))

    def _known(self, flow: str) -> Knowledge | None:
        """What is known for a flow, not more than a second old; None: nothing may be done without asking."""
        if self._cache.is_fresh(flow):
            return self._cache.for_automatic(flow)
        return self._reader.submit(self._cache.for_automatic, flow).result()


def mended_by(found: Correction) -> AutoEdit:
    """A correction as the body that goes out next."""
    why = "; ".join(change.text for change in found.changes)
    data = {HEADER: found.header, "changes": [change.to_json() for change in found.changes]}
    return AutoEdit(found.value, found.who, why, data)


def touches_of(made: RuleEdit) -> Iterable[Touch]:
    """Which fields were changed by it."""
    for each in made.mended.data.get("changes", ()):
        before, after = token(each["before"]), token(each["after"]) or "null"
        yield Touch(made.case_id, made.edit, each["field"], each["rule"], before, after, made.attempts)
