"""From what the rules of a flow decide to what is done: a group, a state, a lane, a changed body.

`CaseRouter` asks the rules. `GroupAssigner` puts failures into groups and notifies people of groups that are new or
back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from towpath.core.clock import MICROS
from towpath.db import Transaction
from towpath.desk.cases.model import ERROR, CaseState
from towpath.desk.groups.model import Fingerprint, happened
from towpath.desk.groups.store import GroupArrivals, GroupStore
from towpath.desk.intake.error_reader import ParsedError
from towpath.desk.policies.rules import (
    AutoEdit,
    AutoEditor,
    CorrectDecision,
    Decision,
    IgnoreDecision,
    IsolateDecision,
    Policies,
    RepeatDecision,
    SalvageDecision,
    salvaged,
)
from towpath.desk.replay.outbox import Key, OutboxWriter
from towpath.notify.model import Notice, NoticeKind, Teller

KEY_HELD = "KeyHeld"  # what `flow.run.attempt` says of a record that it has not tried; that module needs Spark

MOST_TOLD = 20  # groups of one portion that people hear of one by one


@dataclass(slots=True)
class CaseRouter:
    """Decides where each error goes, within one transaction: a delay without a lane makes one."""

    tx: Transaction
    flow: str
    policies: Policies
    sends: OutboxWriter
    editor: AutoEditor | None
    now: int
    last: dict[Key, str]  # where records of a key keep their order: its last case that is not settled
    _lanes: dict[tuple[float, float], int] = field(default_factory=dict)  # by delay and jitter

    def first_route(self, error: ParsedError) -> CaseRoute:
        """What is to be done about a first failure. Behind another record of its key it has to wait for that one."""
        if error.key_hash is None:
            return self.route(error, 1)
        key = (error.stage, error.key_hash)
        route = self._held(self.last.get(key)) if error.failure.exception == KEY_HELD else self._behind(error, key)
        if route.state is not CaseState.IGNORED:
            self.last[key] = error.case_id
        return route

    def _behind(self, error: ParsedError, key: Key) -> CaseRoute:
        before = self.last.get(key)
        if before is None:
            return self.route(error, 1)
        route = self._plain(error)
        return route if route.state is CaseState.IGNORED else CaseRoute(CaseState.PARKED, behind=before)

    def _held(self, before: str | None) -> CaseRoute:
        """The flow has not even tried it. When the one that it waits for is settled by now, it can go on."""
        return CaseRoute(CaseState.REPLAYING) if before is None else CaseRoute(CaseState.PARKED, behind=before)

    def _plain(self, error: ParsedError) -> CaseRoute:
        """What a rule says, unless it is to be sent: no lane is made for that."""
        if not self.policies.rules.get(self.flow):
            return OPEN
        decided = self.policies.decide(self.flow, error.failure, 1, error.record, is_mended=True)
        return self._route(decided, error) if isinstance(decided, IgnoreDecision) else OPEN

    def route(self, error: ParsedError, attempts: int, *, is_mended: bool = False) -> CaseRoute:
        """What is to be done about a failure; `attempts` counts it too. Only errors can be sent anywhere."""
        if error.kind != ERROR or not self.policies.rules.get(self.flow):
            return OPEN
        is_mended = is_mended or error.is_mended
        decided = self.policies.decide(self.flow, error.failure, attempts, error.record, is_mended=is_mended)
        return self._route(decided, error)

    def _route(self, decision: Decision, error: ParsedError) -> CaseRoute:
        match decision:
            case IsolateDecision(rule):
                return CaseRoute(CaseState.OPEN, rule)
            case IgnoreDecision(rule, approved_by):
                return CaseRoute(CaseState.IGNORED, rule, approved_by=approved_by)
            case RepeatDecision(None, rule):
                return CaseRoute(CaseState.REPLAYING, rule)
            case RepeatDecision(delay_s, rule, jitter_s):
                delay_s = delay_s or 0.0
                lane = self._lane(delay_s, jitter_s)
                return CaseRoute(CaseState.WAITING, rule, lane, self.now + round(delay_s * MICROS))
            case CorrectDecision() | SalvageDecision():
                return self._mended(decision, error)

    def _lane(self, delay_s: float, jitter_s: float) -> int:
        if (delay_s, jitter_s) not in self._lanes:
            self._lanes[delay_s, jitter_s] = self.sends.lane(self.tx, self.flow, delay_s, jitter_s)
        return self._lanes[delay_s, jitter_s]

    def _mended(self, decision: CorrectDecision | SalvageDecision, error: ParsedError) -> CaseRoute:
        value = error.record.value
        mended = None
        if value is not None and isinstance(decision, SalvageDecision):
            mended = salvaged(value, decision.fields, decision.rule)
        elif value is not None and self.editor is not None:
            mended = self.editor.automatic(error.flow, error.stage, value, error.failure)
        if mended is None:
            return self._route(decision.then, error)
        return CaseRoute(CaseState.REPLAYING, decision.rule, mended=mended)


class CaseRoute(NamedTuple):
    """Where an error goes."""

    state: CaseState
    rule: str | None = None
    lane: int | None = None
    due_at: int | None = None
    approved_by: str | None = None
    mended: AutoEdit | None = None
    behind: str | None = None  # the case of its key that must be settled first

    @property
    def is_sent(self) -> bool:
        return self.state in (CaseState.WAITING, CaseState.REPLAYING)


OPEN = CaseRoute(CaseState.OPEN)


class GroupAssigner:
    """Finds the group of each fingerprint, or makes it. The cost does not depend on the number of cases."""

    def __init__(self, groups: GroupStore, teller: Teller) -> None:
        self._groups = groups
        self._teller = teller

    def of(self, tx: Transaction, flow: str, errors: Iterable[ParsedError]) -> dict[str, int]:
        """The groups of some failures, by the text of the fingerprint; they count these failures."""
        counted = _counted(errors)
        first = min((each.first_at for each in counted), default=0)
        leads, made = self._groups.of_fingerprints(tx, flow, [each.fingerprint for each in counted], first)
        seen: dict[int, GroupArrivals] = {}
        for each in counted:
            group = leads[each.fingerprint.text]
            before = seen.get(group, GroupArrivals(group, 0, each.first_at, each.last_at))
            times = min(before.first_at, each.first_at), max(before.last_at, each.last_at)
            seen[group] = GroupArrivals(group, before.cases + each.cases, *times)
        back = self._groups.see(tx, list(seen.values()))
        titles = {
            leads[each.fingerprint.text]: happened(each.fingerprint.exception, each.fingerprint.title)
            for each in counted
        }
        self._tell(tx, NoticeKind.GROUP_FOUND, flow, {id: titles[id] for id in made})
        self._tell(tx, NoticeKind.GROUP_REGRESSED, flow, {group.id: group.headline for group in back})
        return leads

    def _tell(self, tx: Transaction, kind: NoticeKind, flow: str, titles: Mapping[int, str]) -> None:
        what = "is new" if kind is NoticeKind.GROUP_FOUND else "is back"
        for id, title in list(titles.items())[:MOST_TOLD]:
            data = {"flow": flow, "group": id, "title": title}
            self._teller.tell(tx, Notice(kind, f"{flow}/{id}", f"group {id} of {flow} {what}: {title}", data))
        more = len(titles) - MOST_TOLD
        if more > 0:
            data = {"flow": flow, "groups": more}
            self._teller.tell(tx, Notice(kind, flow, f"{more} more groups of {flow}: each {what}", data))


@dataclass(slots=True)
class _Counted:
    fingerprint: Fingerprint
    cases: int
    first_at: int
    last_at: int


def _counted(errors: Iterable[ParsedError]) -> list[_Counted]:
    found: dict[str, _Counted] = {}
    for each in errors:
        at, text = each.failed_at, each.fingerprint.text
        known = found.get(text)
        if known is None:
            found[text] = _Counted(each.fingerprint, 1, at, at)
        else:
            known.cases += 1
            known.first_at = min(known.first_at, at)
            known.last_at = max(known.last_at, at)
    return list(found.values())
