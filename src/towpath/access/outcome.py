"""What came of a change that somebody asked for, and how far a request with an idempotency key is.

docs/reference/access-states.md is held equal to this.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Outcome(StrEnum):
    """What came of a change, as a row of the trail has it."""

    BEGUN = "begun"  # nothing yet; for ever, when the process died before it was made
    DONE = "done"  # it was made: written in the transaction that made it
    REFUSED = "refused"  # it was not allowed, or not possible; nothing was changed
    FAILED = "failed"  # something broke; the reason says what


class RequestState(StrEnum):
    """How far a request with an idempotency key is."""

    RUNNING = "running"  # a process is at it, and nothing has been changed
    MADE = "made"  # the change was made; its answer is not kept
    ANSWERED = "answered"  # the answer is kept, and is given again


_O, _R = Outcome, RequestState
OUTCOME_MOVES: Mapping[Outcome, frozenset[Outcome]] = {
    _O.BEGUN: frozenset({_O.DONE, _O.REFUSED, _O.FAILED}),
    _O.DONE: frozenset(),
    _O.REFUSED: frozenset(),
    _O.FAILED: frozenset(),
}
REQUEST_MOVES: Mapping[RequestState, frozenset[RequestState]] = {
    _R.RUNNING: frozenset({_R.MADE, _R.ANSWERED}),
    _R.MADE: frozenset({_R.ANSWERED}),
    _R.ANSWERED: frozenset(),
}
