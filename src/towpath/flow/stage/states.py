"""The states of a stage, every move between them, and what a person can ask of a stage in each.

The chart in docs/reference/flow-states.md is equal to this. The process that runs a stage does what was asked at its
next turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from towpath.errors import IllegalFlowMove, IllegalWish


class StageState(StrEnum):
    """What a stage is doing."""

    CONFIGURE = "configure"  # checks settings, source, sinks, schema, checkpoint and topic ids; finds partitions
    EXTRACT = "extract"  # waits for and fixes the next positions; with nothing new it stays here, shown as idle
    TRANSFORM = "transform"  # runs the steps; decides what is processed and what failed
    LOAD = "load"  # writes every output; collects what was refused
    ERRORS = "errors"  # sends all that failed to the error topic, then outcomes, then commits
    RETRY = "retry"  # waits, then tries the same state again, or starts anew from `configure` after code 0
    HELD = "held"  # an outage: probes with one record, goes on by itself when that passes
    RESET = "reset"  # moves positions by the rules of code 5 and records what was skipped
    PAUSED = "paused"  # by an operator, until an operator says otherwise
    STOPPED = "stopped"  # ended in an orderly way
    HALTED = "halted"  # cannot go on without a person; the reason says why


_CONFIGURE, _EXTRACT, _TRANSFORM, _LOAD, _ERRORS, _RETRY, _HELD, _RESET, _PAUSED, _STOPPED, _HALTED = StageState

# Nobody has to run a stage in one of these.
RESTING = frozenset({_PAUSED, _STOPPED, _HALTED})

# A stage in one of these goes on by itself at a time that it knows.
WAITING = frozenset({_RETRY, _HELD})

_WORKING: dict[StageState, tuple[StageState, ...]] = {
    _CONFIGURE: (_EXTRACT, _RESET, _RETRY),
    _EXTRACT: (_TRANSFORM, _RESET, _RETRY),
    _TRANSFORM: (_LOAD, _HELD, _RETRY),
    _LOAD: (_ERRORS, _HELD, _RETRY),
    _ERRORS: (_EXTRACT, _RETRY),
    _RETRY: (_CONFIGURE, _EXTRACT, _TRANSFORM, _LOAD, _ERRORS, _RESET),
    _HELD: (_TRANSFORM, _LOAD, _RETRY),
    _RESET: (_CONFIGURE, _RETRY),
    _PAUSED: (_CONFIGURE,),
    _STOPPED: (_CONFIGURE,),
    _HALTED: (_CONFIGURE,),
}

# Where each state leads. Any state may come to rest; staying where one is is no move.
MOVES: dict[StageState, frozenset[StageState]] = {
    state: (frozenset(targets) | RESTING) - {state} for state, targets in _WORKING.items()
}

# What comes after the work of a state went well.
NEXT: dict[StageState, StageState] = {
    _CONFIGURE: _EXTRACT,
    _EXTRACT: _TRANSFORM,
    _TRANSFORM: _LOAD,
    _LOAD: _ERRORS,
    _ERRORS: _EXTRACT,
    _RESET: _CONFIGURE,
}


def check_move(state: StageState, target: StageState) -> None:
    if target not in MOVES[state]:
        raise IllegalFlowMove("a pilot", state, target, MOVES[state])


class StageCommandKind(StrEnum):
    """What can be asked."""

    PAUSE = "pause"  # come to rest after the present attempt, until somebody says resume
    RESUME = "resume"  # go on after a pause or a halt; in a wait or an outage: try now
    STOP = "stop"  # end in an orderly way
    RESET = "reset"  # begin anew from the positions in the arguments, with a new checkpoint


_ALL = frozenset(StageState)

# In which states each can be asked.
POSSIBLE: dict[StageCommandKind, frozenset[StageState]] = {
    StageCommandKind.PAUSE: _ALL - {StageState.PAUSED, StageState.STOPPED, StageState.HALTED},
    StageCommandKind.RESUME: frozenset({StageState.PAUSED, StageState.HALTED, StageState.RETRY, StageState.HELD}),
    StageCommandKind.STOP: _ALL - {StageState.STOPPED},
    StageCommandKind.RESET: _ALL,
}


@dataclass(frozen=True, slots=True)
class StageCommand:
    """What somebody asked, why and when."""

    kind: StageCommandKind
    who: str
    why: str
    at: datetime
    arguments: Mapping[str, Any] = field(default_factory=dict)


def refusal(flow: str, stage: str, kind: StageCommandKind, state: StageState) -> IllegalWish:
    possible = ", ".join(each for each in StageCommandKind if state in POSSIBLE[each])
    return IllegalWish(f"stage {stage} of {flow} is {state}: it cannot {kind}; possible now: {possible}")
