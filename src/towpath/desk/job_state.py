"""The states of bulk jobs, of their items, and of edits. docs/reference/desk-job-states.md is held equal to this."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class JobKind(StrEnum):
    """What a job does to each of its cases."""

    REPLAY = "replay"  # back into the flow, now or after a delay
    RESEND = "resend"  # to the source again, as a new record
    ABANDON = "abandon"  # dismissed by the person who made the job
    OPEN = "open"  # what a rule has ignored, in front of a person
    ASSIGN = "assign"  # to a person, or to nobody
    REGROUP = "regroup"  # into a group of their own
    CORRECT = "correct"  # changed by a rule of learned corrections


class JobState(StrEnum):
    """How far a bulk job is."""

    COUNTED = "counted"  # named and counted; nothing is done until somebody begins it
    FILLING = "filling"  # its cases are being written down, one item each
    RUNNING = "running"  # item by item
    PAUSED = "paused"  # by a person; what is done is done, the rest waits
    FINISHED = "finished"  # every item has its outcome
    ABORTED = "aborted"  # by a person; what is done is done, the rest stays as it is
    FAILED = "failed"  # could not go on; the reason says why, and it can be resumed


_J = JobState
MOVES: Mapping[JobState, frozenset[JobState]] = {
    _J.COUNTED: frozenset({_J.FILLING, _J.ABORTED}),
    _J.FILLING: frozenset({_J.RUNNING, _J.PAUSED, _J.ABORTED, _J.FAILED}),
    _J.RUNNING: frozenset({_J.PAUSED, _J.FINISHED, _J.ABORTED, _J.FAILED}),
    _J.PAUSED: frozenset({_J.FILLING, _J.RUNNING, _J.ABORTED}),
    _J.FINISHED: frozenset(),
    _J.ABORTED: frozenset(),
    _J.FAILED: frozenset({_J.FILLING, _J.RUNNING}),
}
AT_WORK = frozenset({_J.FILLING, _J.RUNNING})


class ItemState(StrEnum):
    """What became of one case in a job."""

    WAITING = "waiting"  # its turn has not come
    DONE = "done"
    REFUSED = "refused"  # the case did not allow it; the item says why


_I = ItemState
ITEM_MOVES: Mapping[ItemState, frozenset[ItemState]] = {
    _I.WAITING: frozenset({_I.DONE, _I.REFUSED}),
    _I.DONE: frozenset(),
    _I.REFUSED: frozenset(),
}


class EditState(StrEnum):
    """Where a changed body is on its way."""

    PROPOSED = "proposed"  # a second person has to agree
    APPLIED = "applied"  # is what goes out next, unless a later one was applied
    REFUSED = "refused"  # by the second person
    OVERTAKEN = "overtaken"  # another edit was applied first, or the case has left the desk


_E = EditState
EDIT_MOVES: Mapping[EditState, frozenset[EditState]] = {
    _E.PROPOSED: frozenset({_E.APPLIED, _E.REFUSED, _E.OVERTAKEN}),
    _E.APPLIED: frozenset(),
    _E.REFUSED: frozenset(),
    _E.OVERTAKEN: frozenset(),
}
