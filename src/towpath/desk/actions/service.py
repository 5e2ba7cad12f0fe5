"""What people do to cases: each action is one transaction, with who and why, a history row and an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from towpath.core.events import Event, EventKind
from towpath.db import Transaction
from towpath.db.event_log import check_who, check_why, commit_by_hand
from towpath.desk.actions.actions import Abandon, Assign, CaseAction, JobKind, Open, Recall, Replay, Resend, make_act
from towpath.desk.cases.model import Case, CaseState
from towpath.desk.cases.store import HistoryEntry
from towpath.desk.masks import NO_MASKS, Masks
from towpath.desk.replay.recall import ReplayRecall, RouteCheck, RouteSubject
from towpath.errors import BadValue, FieldsMasked, IllegalCaseMove, Refused, UnknownCase

if TYPE_CHECKING:
    from towpath.desk.context import DeskContext


S = TypeVar("S", bound=RouteSubject)

_FIRST = {
    CaseState.WAITING: "it waits in a lane already: recall it first",
    CaseState.REPLAYING: "its flow has it: recall it first, which is possible until that has read it",
    CaseState.PARKED: "open it first",
    CaseState.IGNORED: "open it first",
}
MOST_AT_ONCE = 500  # in one transaction, which SQLite is to have done within 250 ms; more are a bulk job


@dataclass(frozen=True, slots=True)
class ActionOutcome(Generic[S]):
    """The cases to which it was done, as they were before, and why it could not be done to others."""

    done: tuple[S, ...]
    refused: Mapping[str, str]


ActionResult = ActionOutcome[Case]  # of cases that a person has named


class CaseActions:
    """Actions of one person on cases. With one case a refusal is raised; with several it is listed for each."""

    def __init__(self, parts: DeskContext) -> None:
        self._parts = parts

    def replay(self, ids: Sequence[str], *, who: str, why: str, delay_s: float | None = None) -> ActionResult:
        """Send records back to their stages, now or after a delay; whoever waits in a lane does not any longer."""
        return self._perform(Replay(self._parts.sends, self._parts.edits, delay_s), ids, who, why)

    def resend(self, ids: Sequence[str], *, who: str, why: str) -> ActionResult:
        """Send records to their source again: they count as new ones, and the cases are closed."""
        return self._perform(Resend(self._parts.sends, self._parts.edits), ids, who, why)

    def recall(self, ids: Sequence[str], *, who: str, why: str) -> ActionResult:
        """Undo replays: what still waits in its lane, or lies unread in its flow's re-entry topic."""
        parts = self._parts
        recall = ReplayRecall(parts.database, parts.log)
        return self._perform(Recall(parts.sends, parts.cases, recall), ids, who, why)

    def abandon(self, ids: Sequence[str], *, who: str, why: str) -> ActionResult:
        """Dismiss records for good; a gap is acknowledged by that."""
        return self._perform(Abandon(self._parts.cases, self._parts.parking), ids, who, why)

    def open(self, ids: Sequence[str], *, who: str, why: str) -> ActionResult:
        """Take back what a rule has ignored, or what is parked behind another record of its key."""
        return self._perform(Open(self._parts.cases), ids, who, why)

    def assign(self, ids: Sequence[str], assignee: str | None, *, who: str, why: str) -> ActionResult:
        """Give cases to a person, or to nobody."""
        return self._perform(Assign(self._parts.cases, self._parts.history, assignee), ids, who, why)

    def correct(
        self,
        ids: Sequence[str],
        *,
        who: str,
        why: str,
        rule: int | None = None,
        replays: bool = True,
        masks: Masks = NO_MASKS,
    ) -> ActionResult:
        """Change records as learned corrections say, and send them back; by rules that are on, and this one."""
        check_sees_all(masks)
        act = make_act(self._parts, JobKind.CORRECT, {"rule": rule, "replays": replays})
        return self._perform(act, ids, who, why)

    def note(self, case_id: str, text: str, *, who: str) -> None:
        """Keep a remark with a case."""

        def act(tx: Transaction) -> None:
            case = self._parts.cases.read(tx, case_id)
            self._parts.history.add(tx, [HistoryEntry("noted", check_who(who), check_why(text), case.id)])
            self._record(tx, case.id, "noted", who, text, {})

        commit_by_hand(self._parts.database, act)

    def _perform(self, act: CaseAction, ids: Sequence[str], who: str, why: str) -> ActionResult:
        check_who(who)
        check_why(why)
        wanted = list(dict.fromkeys(ids))
        if not 1 <= len(wanted) <= MOST_AT_ONCE:
            raise BadValue(f"{len(wanted)} cases: name 1 to {MOST_AT_ONCE}, or make a bulk job of it")
        routes = self._routes(act, wanted)

        def change(tx: Transaction) -> ActionResult:
            done = perform(tx, act, wanted, self._parts.cases.lock(tx, wanted), routes, who, why)
            if len(wanted) == 1 and done.refused:
                raise self._refusal(tx, act, wanted[0], done.refused[wanted[0]])
            for case in done.done:
                self._record(tx, case.id, act.what, who, why, {"was": case.state, **act.data})
            return done

        return commit_by_hand(self._parts.database, change)

    def _routes(self, act: CaseAction, ids: Sequence[str]) -> RouteCheck:
        act.check()
        routes = RouteCheck(self._parts.database, self._parts.log)
        with self._parts.database.read() as tx:
            cases = self._parts.cases.some(tx, ids)
        routes.ask(route for case in cases.values() if (route := act.route(case)) is not None)
        act.get_ready(act.unready(cases.values()))
        return routes

    def _refusal(self, tx: Transaction, act: CaseAction, case_id: str, why: str) -> Refused:
        case = self._parts.cases.some(tx, [case_id]).get(case_id)
        if case is None:
            return UnknownCase(case_id)
        if case.state in act.frm or act.to is None:
            return BadValue(f"case {case.seq}: {why}")
        return IllegalCaseMove(
            case_id, case.state, act.to, sorted(act.frm), number=case.seq, hint=_what_first(act, case.state)
        )

    def _record(self, tx: Transaction, case_id: str, what: str, who: str, why: str, data: Mapping[str, Any]) -> None:
        event = Event(EventKind.CASE_CHANGED_BY_HAND, case_id, who, why, {"what": what, **data})
        self._parts.event_log.record(tx, event)


def check_sees_all(masks: Masks) -> None:
    """A person who may not see what a rule puts into a record cannot answer for it."""
    if masks:
        raise FieldsMasked("some fields are masked for you, so that you cannot have records corrected")


def perform(
    tx: Transaction, act: CaseAction, ids: Sequence[str], found: Mapping[str, S], routes: RouteCheck, who: str, why: str
) -> ActionOutcome[S]:
    """Do it to those that allow it; the routes must have been asked for.

    A case that is not locked may have moved on since it was read: then it is left alone, and refused.
    """
    refused = {id: "there is no such case any more" for id in ids if id not in found}
    able = []
    for case in (found[id] for id in ids if id in found):
        why_not = _why_not(act, case, routes)
        if why_not is None:
            able.append(case)
        else:
            refused[case.id] = why_not
    held = act.held(tx, [case.id for case in able]) if able else {}
    refused |= held
    able = [case for case in able if case.id not in held]
    moved = set(act.do(tx, able, who, why)) if able else set()
    done = tuple(case for case in able if case.id in moved)
    refused |= {case.id: "somebody was faster" for case in able if case.id not in moved}
    return ActionOutcome(done, refused)


def _why_not(act: CaseAction, case: RouteSubject, routes: RouteCheck) -> str | None:
    if case.state not in act.frm:
        first = _what_first(act, case.state)
        only = f"it is {case.state}; {act.verb} is possible only from {' or '.join(sorted(act.frm))}"
        return f"{only}; {first}" if first else only
    route = act.route(case)
    return act.refusal(case) or (None if route is None else routes.refusal(route))


def _what_first(act: CaseAction, state: CaseState) -> str:
    """What would make it possible, if anything would."""
    return _FIRST.get(state, "") if CaseState.OPEN in act.frm else ""
