"""The states of a stage and every move between them. The chart in docs/reference/flow-states.md is equal to this."""

from __future__ import annotations

from enum import StrEnum

from towpath.errors import IllegalFlowMove


class PilotState(StrEnum):
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


_CONFIGURE, _EXTRACT, _TRANSFORM, _LOAD, _ERRORS, _RETRY, _HELD, _RESET, _PAUSED, _STOPPED, _HALTED = PilotState

# Nobody has to run a stage in one of these.
RESTING = frozenset({_PAUSED, _STOPPED, _HALTED})

# A stage in one of these goes on by itself at a time that it knows.
WAITING = frozenset({_RETRY, _HELD})

_WORKING: dict[PilotState, tuple[PilotState, ...]] = {
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
MOVES: dict[PilotState, frozenset[PilotState]] = {
    state: (frozenset(targets) | RESTING) - {state} for state, targets in _WORKING.items()
}

# What comes after the work of a state went well.
NEXT: dict[PilotState, PilotState] = {
    _CONFIGURE: _EXTRACT,
    _EXTRACT: _TRANSFORM,
    _TRANSFORM: _LOAD,
    _LOAD: _ERRORS,
    _ERRORS: _EXTRACT,
    _RESET: _CONFIGURE,
}


def check_move(state: PilotState, target: PilotState) -> None:
    if target not in MOVES[state]:
        raise IllegalFlowMove("a pilot", state, target, MOVES[state])
