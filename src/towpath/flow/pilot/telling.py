"""What is told of a move. Every one goes to the subscribers of the process; a row is kept of those that people ask for.

A healthy stage goes through four states for each batch, several times a second: rows of these would only hide the
others.
"""

from __future__ import annotations

from towpath.events import Event, EventKind
from towpath.flow.pilot.pilot import Pilot
from towpath.flow.pilot.state import PilotState

_EVERYDAY = frozenset({PilotState.EXTRACT, PilotState.TRANSFORM, PilotState.LOAD, PilotState.ERRORS})


def is_memorable(before: Pilot, after: Pilot) -> bool:
    """Whether a row of this move is kept: not of those from batch to batch."""
    return before.state is not after.state and not {before.state, after.state} <= _EVERYDAY


def move_event(flow: str, stage: str, before: Pilot, after: Pilot) -> Event:
    data: dict[str, object] = {"from": before.state, "to": after.state, "batch_id": _batch_id(before, after)}
    why = after.reason
    if after.next_try is not None:
        data |= {"attempt": after.attempt, "next_try": after.next_try, "resumes": after.resumes}
    if after.last_error is not None and after.last_error.at == after.since:
        data |= {"code": after.last_error.code, "step": after.last_error.step}
        why = why or after.last_error.message
    return Event(EventKind.FLOW_MOVED, f"{flow}/{stage}", why=why, data=data)


def _batch_id(before: Pilot, after: Pilot) -> int | None:
    return before.batch_id if after.batch_id is None else after.batch_id
