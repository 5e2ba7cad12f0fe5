"""The state machine of one stage: a value that never changes, and the moves that give the next one. Pure.

Times are microseconds since 1970, by the database's time. A wait before the next try is twice as long each time, up to
a limit, spread so that not all stages come at once (`RetryWaits`).

Every move is told to the subscribers of the process (`move_event`). A row is kept of those that people ask for
(`is_memorable`): a healthy stage goes through four states for each batch, several times a second, and rows of these
would only hide the others.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from towpath.core.clock import MICROS
from towpath.core.events import Event, EventKind
from towpath.errors import IllegalFlowMove
from towpath.flow.failures import Action, ErrorCode
from towpath.flow.stage.states import MOVES, NEXT, RESTING, WAITING, StageState, check_move
from towpath.settings import FlowSettings

SEARCH_AFTER = 3  # times in a row that a batch fails with code 0
JITTER = 0.35
_MOST_DOUBLINGS = 60  # beyond every limit, and still a number that a float can hold
_EVERYDAY = frozenset({StageState.EXTRACT, StageState.TRANSFORM, StageState.LOAD, StageState.ERRORS})


@dataclass(frozen=True, slots=True)
class StageMachine:
    """The state of one stage, and what is needed to go on from it.

    `attempt` counts the failures of the state `failing` and goes back to 0 only when that state's own work has gone
    well; that a retry has begun proves nothing yet. `uncategorised` counts how often the batch has failed without a
    known cause, until it is committed or given up by a reset.
    """

    state: StageState
    since: int
    attempt: int = 0
    next_try: int | None = None  # in `retry` and `held`: when to go on, or to probe
    resumes: StageState | None = None  # in `retry` and `held`: what to go on with
    failing: StageState | None = None
    last_error: StageTrouble | None = None  # kept until the next one
    batch_id: int | None = None  # from the fixing of its positions to its commit or a reset
    uncategorised: int = 0
    reason: str = ""  # why it rests

    @classmethod
    def new(cls, now: int) -> Self:
        """Of a stage that has never run."""
        return cls(StageState.STOPPED, now, reason="it has not been started yet")

    # Asking

    @property
    def is_resting(self) -> bool:
        return self.state in RESTING

    @property
    def is_waiting(self) -> bool:
        return self.state in WAITING

    @property
    def needs_search(self) -> bool:
        """Whether the batch has failed so often without a known cause that the record at fault is to be looked for."""
        return self.batch_id is not None and self.uncategorised >= SEARCH_AFTER

    def is_due(self, now: int) -> bool:
        """Whether a waiting stage may go on, or probe."""
        return self.next_try is not None and now >= self.next_try

    # Moving

    def started(self, now: int) -> StageMachine:
        """A process begins to run the stage. It starts at `configure`, whatever the one before it was doing.

        A stage that was paused or halted stays so: a restart is no decision of a person.
        """
        if self.state in (StageState.PAUSED, StageState.HALTED):
            return self
        return replace(self._going_on(), state=StageState.CONFIGURE, since=now)

    def moved(self, to: StageState, now: int, *, batch_id: int | None = None) -> StageMachine:
        """Go on to that state. `batch_id` is given once the positions of the batch are fixed.

        To come to `retry` or `held`, say why: `failed`, `held`. What waits goes on with what it `resumes`, or to rest.
        """
        allowed = MOVES[self.state] - WAITING
        if self.is_waiting:
            allowed &= RESTING | {self.resumes}
        if to not in allowed:
            raise IllegalFlowMove("a pilot", self.state, to, allowed)
        moved = replace(self._going_on(), state=to, since=now)
        if NEXT.get(self.state) is to:
            moved = moved._after_success_of(self.state)
        return moved if batch_id is None else moved.with_batch(batch_id)

    def with_batch(self, batch_id: int) -> StageMachine:
        """The positions of the next batch are fixed. Another batch than before has not failed yet."""
        if batch_id == self.batch_id:
            return self
        return replace(self, batch_id=batch_id, uncategorised=0)

    def failed(self, error: StageTrouble, now: int, waits: RetryWaits) -> StageMachine:
        """What the state was doing ended with an error. By its code: wait and try again, start anew, or reset.

        A handled code comes here only when it could not be laid on a record; it is taken for code 0. Positions are
        moved from `configure` and `extract` only; code 5 in a later state starts anew, and is found again there.
        """
        action = error.code.action
        if self.state is StageState.HELD and action in (Action.RETRY, Action.DIVERT):
            return self.held(error, now, waits)
        check_move(self.state, StageState.RETRY)
        if action is Action.RETRY:
            return self._waits(StageState.RETRY, self.state, error, now, waits)
        if action is Action.RESET and StageState.RESET in MOVES[self.state]:
            waiting = self._waits(StageState.RETRY, StageState.RESET, error, now, waits)
            # At once for the first time; a reset that did not help is not repeated without a pause.
            return waiting if waiting.attempt > 1 else waiting.resumed(now)
        waiting = self._waits(StageState.RETRY, StageState.CONFIGURE, error, now, waits)
        is_batch = self.state in (StageState.TRANSFORM, StageState.LOAD, StageState.ERRORS, StageState.HELD)
        counts = is_batch and action is not Action.RESET
        return replace(waiting, uncategorised=self.uncategorised + 1) if counts else waiting

    def held(self, error: StageTrouble, now: int, waits: RetryWaits) -> StageMachine:
        """There is an outage: wait with the batch, probe, and go on with the present state when the probe passes.

        Said again of a stage that is held, it means that a probe has failed.
        """
        if self.state is not StageState.HELD:
            check_move(self.state, StageState.HELD)
        resumes = self.resumes if self.state is StageState.HELD else self.state
        return self._waits(StageState.HELD, resumes, error, now, waits)

    def resumed(self, now: int) -> StageMachine:
        """Go on after a wait, an outage or a rest. Whether it is time to do so is the caller's to ask (`is_due`)."""
        if self.is_resting:
            return self.moved(StageState.CONFIGURE, now)
        if not self.is_waiting or self.resumes is None:
            raise IllegalFlowMove("a pilot", self.state, "resumed", ())
        return self.moved(self.resumes, now)

    def rested(self, state: StageState, reason: str, now: int) -> StageMachine:
        """Come to rest: paused, stopped or halted."""
        check_move(self.state, state)
        return replace(self._going_on(), state=state, since=now, reason=reason)

    def _waits(
        self, state: StageState, resumes: StageState | None, error: StageTrouble, now: int, waits: RetryWaits
    ) -> StageMachine:
        failing = self.resumes if self.state is StageState.HELD else self.state
        attempt = self.attempt + 1 if failing is self.failing else 1
        return replace(
            self,
            state=state,
            since=self.since if state is self.state else now,
            attempt=attempt,
            next_try=now + waits.before(attempt),
            resumes=resumes,
            failing=failing,
            last_error=replace(error, at=now),
        )

    def _after_success_of(self, state: StageState) -> StageMachine:
        after = replace(self, attempt=0, failing=None) if self.failing is state else self
        return (
            replace(after, batch_id=None, uncategorised=0) if state in (StageState.ERRORS, StageState.RESET) else after
        )

    def _going_on(self) -> StageMachine:
        return replace(self, next_try=None, resumes=None, reason="")

    # Storing

    def to_value(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_value(cls, value: dict[str, Any]) -> Self:
        """Names that it does not know were written by a newer Towpath and are left out."""
        known = {name: value[name] for name in cls.__dataclass_fields__ if name in value}
        for name in ("state", "resumes", "failing"):
            known[name] = None if known.get(name) is None else StageState(known[name])
        if error := known.get("last_error"):
            known["last_error"] = StageTrouble(ErrorCode(error["code"]), error["step"], error["message"], error["at"])
        return cls(**known)


@dataclass(frozen=True, slots=True)
class StageTrouble:
    """An error as the state machine keeps it."""

    code: ErrorCode
    step: str
    message: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class RetryWaits:
    """From `least_s`, doubling, to `most_s`, each 35 % more or less by chance; without end."""

    least_s: float
    most_s: float
    rng: random.Random

    @classmethod
    def of(cls, settings: FlowSettings, rng: random.Random) -> Self:
        return cls(settings.retry_least_s, settings.retry_most_s, rng)

    def before(self, attempt: int) -> int:
        """Microseconds to wait after the attempt of that number, from 1, has failed."""
        middle_s = min(self.most_s, self.least_s * 2.0 ** min(attempt - 1, _MOST_DOUBLINGS))
        return round(middle_s * self.rng.uniform(1 - JITTER, 1 + JITTER) * MICROS)


def is_memorable(before: StageMachine, after: StageMachine) -> bool:
    """Whether a row of this move is kept: not of those from batch to batch."""
    return before.state is not after.state and not {before.state, after.state} <= _EVERYDAY


def move_event(flow: str, stage: str, before: StageMachine, after: StageMachine) -> Event:
    batch_id = before.batch_id if after.batch_id is None else after.batch_id
    data: dict[str, object] = {"from": before.state, "to": after.state, "batch_id": batch_id}
    why = after.reason
    if after.next_try is not None:
        data |= {"attempt": after.attempt, "next_try": after.next_try, "resumes": after.resumes}
    if after.last_error is not None and after.last_error.at == after.since:
        data |= {"code": after.last_error.code, "step": after.last_error.step}
        why = why or after.last_error.message
    return Event(EventKind.FLOW_MOVED, f"{flow}/{stage}", why=why, data=data)
