"""The pilot: the state machine of one stage, as pure code. Values in, values out; no Spark, no database, no clock.

A stage asks its pilot what to do, and tells it what happened; each answer is a new `Pilot`. Who runs the stage writes
it into the stage's row, so that everybody can see the state, the time in it, the attempt, the next try and the last
error. The states and their moves are in `state.py`; the chart in docs/reference/flow-states.md is held equal to them.

May import the core and the flow's codes only.
"""

from towpath.flow.stage.machine import (
    JITTER,
    SEARCH_AFTER,
    RetryWaits,
    StageMachine,
    StageTrouble,
    is_memorable,
    move_event,
)
from towpath.flow.stage.states import MOVES, RESTING, StageState

__all__ = [
    "JITTER",
    "MOVES",
    "RESTING",
    "SEARCH_AFTER",
    "RetryWaits",
    "StageMachine",
    "StageState",
    "StageTrouble",
    "is_memorable",
    "move_event",
]
