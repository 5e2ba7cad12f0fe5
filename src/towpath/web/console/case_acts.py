"""What can be done to a case in the state it is in: buttons that would be refused are not shown."""

from __future__ import annotations

from collections.abc import Mapping

from towpath.desk.case import ERROR, Case
from towpath.desk.case_state import LIVE, CaseState
from towpath.desk.editing import EDITABLE
from towpath.desk.job_state import JobKind
from towpath.desk.operating_acts import Abandon, Open, Recall, Resend
from towpath.desk.selection import Selection

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


def meant(selection: Selection, kind: JobKind, *, is_later: bool = False) -> Selection:
    """Those of the cases that a filter lets through to which it can be done; `is_later`: after a delay."""
    can = POSSIBLE["delay" if is_later else kind.value]
    states = can if selection.states is None else can & set(selection.states)
    return selection.within(states=tuple(sorted(states)))
