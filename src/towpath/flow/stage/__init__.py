"""One stage of a flow: its states, the machine that moves between them, its row, and its history.

The names below are the state machine as pure code: values in, values out; no Spark, no database, no clock. Whoever runs
a stage asks its machine what to do, and tells it what happened; each answer is a new `StageMachine`, which is written
into the stage's row, so that everybody can see the state, the time in it, the attempt, the next try and the last error.
"""

from towpath.flow.stage.machine import (
    JITTER,
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
    "RetryWaits",
    "StageMachine",
    "StageState",
    "StageTrouble",
    "is_memorable",
    "move_event",
]
