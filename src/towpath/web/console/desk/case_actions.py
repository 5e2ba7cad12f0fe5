"""What a person does to cases, one or those that are ticked in a list; and what can be done in which state.

Buttons that would be refused are not shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from fastapi import APIRouter
from fastapi.responses import Response

from towpath.desk.actions.actions import Abandon, JobKind, Open, Recall, Resend
from towpath.desk.actions.service import ActionResult
from towpath.desk.cases.model import ERROR, LIVE, Case, CaseSelection, CaseState
from towpath.desk.desk import Desk
from towpath.desk.edits import EDITABLE
from towpath.errors import BadValue
from towpath.policy import seconds
from towpath.web.api.desk_request import OnCases, id_of, ids_of
from towpath.web.auth import FormData, Worker
from towpath.web.console.layout.action import BACK, Act
from towpath.web.console.layout.page import went

router = APIRouter(prefix="/desk/cases", include_in_schema=False)

CASE = "case"  # the field of a form with the case, or with each that is ticked
MOST_TOLD = 3  # refusals that are told one by one

# From which states each is possible.
POSSIBLE: Mapping[str, frozenset[CaseState]] = {
    "replay": frozenset({CaseState.OPEN, CaseState.WAITING}),
    "delay": frozenset({CaseState.OPEN}),
    "edit": EDITABLE,
    "correct": frozenset({CaseState.OPEN}),
    "resend": Resend.frm,
    "recall": Recall.frm,
    "abandon": Abandon.frm,
    "open": Open.frm,
    "assign": LIVE,
    "note": frozenset(CaseState),
}
_NEEDS_RECORD = frozenset({"replay", "delay", "edit", "correct", "resend"})

# What bulk jobs do, in the words of their buttons, and what one should know before.
BULK: Mapping[JobKind, tuple[str, str]] = {
    JobKind.REPLAY: (
        "Replay",
        "Their records go back into the flow, at once or after a delay. What waits in a lane goes at once. "
        "What fails again is an open case once more.",
    ),
    JobKind.ABANDON: (
        "Abandon",
        "They are dismissed for good, in your name: their bodies are let go, and nothing brings them back.",
    ),
    JobKind.ASSIGN: ("Assign", "They are somebody's to look at, or nobody's. Nothing else changes."),
    JobKind.CORRECT: (
        "Correct",
        "Learned corrections that are sure enough are applied: those that are on, and the rule that you name. "
        "Every change is marked on its record, and can be reverted with its rule.",
    ),
    JobKind.OPEN: ("Open", "What a rule has ignored, or what is parked behind another record, becomes open."),
    JobKind.RESEND: (
        "Resend",
        "They are written to their source again, as new records, and the cases are closed. "
        "Whatever else reads that source gets them twice.",
    ),
}


def possible(case: Case) -> frozenset[str]:
    """What can be done to it now. A gap has no record: it is acknowledged by abandoning it."""
    found = {name for name, states in POSSIBLE.items() if case.state in states}
    return frozenset(found if case.kind == ERROR else found - _NEEDS_RECORD)


def meant(selection: CaseSelection, kind: JobKind, *, is_later: bool = False) -> CaseSelection:
    """Those of the cases that a filter lets through to which it can be done; `is_later`: after a delay."""
    can = POSSIBLE["delay" if is_later else kind.value]
    states = can if selection.states is None else can & set(selection.states)
    return selection.within(states=tuple(sorted(states)))


@router.post("/replay")
def replay(act: Act, principal: Worker) -> Response:
    """Send records back into their flows, at once or after a delay."""
    delay_s = delay_of(act.form)
    said = "sent back" if delay_s is None else "waiting in a lane"
    return _on_cases(act, "replay", partial(act.runtime.desk.operate.replay, delay_s=delay_s), said)


@router.post("/resend")
def resend(act: Act, principal: Worker) -> Response:
    """Send records to their source again, where they count as new ones."""
    return _on_cases(act, "resend", act.runtime.desk.operate.resend, "sent to the source again")


@router.post("/recall")
def recall(act: Act, principal: Worker) -> Response:
    """Undo replays: what still waits in its lane, or was not read by its flow."""
    return _on_cases(act, "recall", act.runtime.desk.operate.recall, "called back")


@router.post("/abandon")
def abandon(act: Act, principal: Worker) -> Response:
    """Dismiss records for good."""
    return _on_cases(act, "abandon", act.runtime.desk.operate.abandon, "abandoned")


@router.post("/open")
def open_(act: Act, principal: Worker) -> Response:
    """Take back what a rule has ignored, or what is parked."""
    return _on_cases(act, "open", act.runtime.desk.operate.open, "opened")


@router.post("/assign")
def assign(act: Act, principal: Worker) -> Response:
    """Give cases to a person, or to nobody."""
    assignee = act.form.maybe("assignee")
    said = f"given to {assignee or 'nobody'}"
    return _on_cases(act, "assign", partial(act.runtime.desk.operate.assign, assignee=assignee), said)


@router.post("/correct")
def correct(act: Act, principal: Worker) -> Response:
    """Change records as learned corrections say that are on, and as the one that is named; then send them back."""
    desk = act.runtime.desk
    replays = act.form.is_ticked("replays")
    how = partial(
        desk.operate.correct, rule=act.form.whole("rule"), replays=replays, masks=desk.masks_for(principal.role)
    )
    return _on_cases(act, "correct", how, "corrected" + (" and sent back" if replays else ""))


@router.post("/{case}/note")
def note(case: str, act: Act, principal: Worker) -> Response:
    """Keep a remark with a case."""
    desk = act.runtime.desk
    id = id_of(desk, case)
    return act.do("note", id, lambda: desk.operate.note(id, act.why, who=principal.name), "noted")


def delay_of(form: FormData) -> float | None:
    """After which time, as people write it: `10m`; none: at once."""
    text = form.maybe("delay")
    return None if text is None else seconds(text, "the delay")


def _on_cases(act: Act, what: str, how: OnCases, said: str) -> Response:
    desk = act.runtime.desk
    names = act.form.all(CASE)
    if not names:
        raise BadValue("tick at least one case")
    ids = ids_of(desk, names)
    subject = f"case {ids[0]}" if len(ids) == 1 else f"{len(ids)} cases from {ids[0]}"
    done = act.make(what, subject, lambda: how(ids, **act.by))
    return went(act.form.one(BACK) or "/desk/cases", _told(desk, done, said), is_wrong=not done.done)


def _told(desk: Desk, done: ActionResult, said: str) -> str:
    """What was done to how many, and what was not and why."""
    count = len(done.done)
    parts = [f"{'1 case is' if count == 1 else f'{count} cases are'} {said}"]
    refused = list(done.refused.items())
    numbers = _numbers(desk, [id for id, _ in refused[:MOST_TOLD]])
    parts += [f"not case {numbers.get(id, id)}: {why}" for id, why in refused[:MOST_TOLD]]
    if len(refused) > MOST_TOLD:
        parts.append(f"and {len(refused) - MOST_TOLD} more were refused")
    return "; ".join(parts)


def _numbers(desk: Desk, ids: Sequence[str]) -> dict[str, int]:
    found = desk.cases.page(CaseSelection(ids=tuple(ids)), limit=len(ids)).cases if ids else []
    return {case.id: case.seq for case in found}
