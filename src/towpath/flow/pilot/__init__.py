"""The pilot: the state machine of one stage, as pure code. Values in, values out; no Spark, no database, no clock.

A stage asks its pilot what to do, and tells it what happened; each answer is a new `Pilot`. Who runs the stage writes
it into the stage's row, so that everybody can see the state, the time in it, the attempt, the next try and the last
error. The states and their moves are in `state.py`; the chart in docs/reference/flow-states.md is held equal to them.

May import the core and the flow's codes only.
"""

from towpath.flow.pilot.pilot import SEARCH_AFTER, Pilot, Trouble
from towpath.flow.pilot.state import MOVES, RESTING, PilotState
from towpath.flow.pilot.telling import is_memorable, move_event
from towpath.flow.pilot.waits import JITTER, Waits

__all__ = [
    "JITTER",
    "MOVES",
    "RESTING",
    "SEARCH_AFTER",
    "Pilot",
    "PilotState",
    "Trouble",
    "Waits",
    "is_memorable",
    "move_event",
]
