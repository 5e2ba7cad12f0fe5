"""Where one stage is, as a value that never changes. Times are microseconds since 1970, by the database's time."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from towpath.errors import IllegalFlowMove
from towpath.flow.codes import Action, ErrorCode
from towpath.flow.pilot.state import MOVES, NEXT, RESTING, WAITING, PilotState, check_move
from towpath.flow.pilot.waits import Waits

SEARCH_AFTER = 3  # times in a row that a batch fails with code 0


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error as the pilot keeps it."""

    code: ErrorCode
    step: str
    message: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class Pilot:
    """The state of one stage, and what is needed to go on from it.

    `attempt` counts the failures of the state `failing` and goes back to 0 only when that state's own work has gone
    well; that a retry has begun proves nothing yet. `uncategorised` counts how often the batch has failed without a
    known cause, until it is committed or given up by a reset.
    """

    state: PilotState
    since: int
    attempt: int = 0
    next_try: int | None = None  # in `retry` and `held`: when to go on, or to probe
    resumes: PilotState | None = None  # in `retry` and `held`: what to go on with
    failing: PilotState | None = None
    last_error: Trouble | None = None  # kept until the next one
    batch_id: int | None = None  # from the fixing of its positions to its commit or a reset
    uncategorised: int = 0
    reason: str = ""  # why it rests

    @classmethod
    def new(cls, now: int) -> Self:
        """Of a stage that has never run."""
        return cls(PilotState.STOPPED, now, reason="it has not been started yet")

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

    def started(self, now: int) -> Pilot:
        """A process begins to run the stage. It starts at `configure`, whatever the one before it was doing.

        A stage that was paused or halted stays so: a restart is no decision of a person.
        """
        if self.state in (PilotState.PAUSED, PilotState.HALTED):
            return self
        return replace(self._going_on(), state=PilotState.CONFIGURE, since=now)

    def moved(self, to: PilotState, now: int, *, batch_id: int | None = None) -> Pilot:
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

    def with_batch(self, batch_id: int) -> Pilot:
        """The positions of the next batch are fixed. Another batch than before has not failed yet."""
        if batch_id == self.batch_id:
            return self
        return replace(self, batch_id=batch_id, uncategorised=0)

    def failed(self, error: Trouble, now: int, waits: Waits) -> Pilot:
        """What the state was doing ended with an error. By its code: wait and try again, start anew, or reset.

        A handled code comes here only when it could not be laid on a record; it is taken for code 0. Positions are
        moved from `configure` and `extract` only; code 5 in a later state starts anew, and is found again there.
        """
        action = error.code.action
        if self.state is PilotState.HELD and action in (Action.RETRY, Action.DIVERT):
            return self.held(error, now, waits)
        check_move(self.state, PilotState.RETRY)
        if action is Action.RETRY:
            return self._waits(PilotState.RETRY, self.state, error, now, waits)
        if action is Action.RESET and PilotState.RESET in MOVES[self.state]:
            waiting = self._waits(PilotState.RETRY, PilotState.RESET, error, now, waits)
            # At once for the first time; a reset that did not help is not repeated without a pause.
            return waiting if waiting.attempt > 1 else waiting.resumed(now)
        waiting = self._waits(PilotState.RETRY, PilotState.CONFIGURE, error, now, waits)
        is_batch = self.state in (PilotState.TRANSFORM, PilotState.LOAD, PilotState.ERRORS, PilotState.HELD)
        counts = is_batch and action is not Action.RESET
        return replace(waiting, uncategorised=self.uncategorised + 1) if counts else waiting

    def held(self, error: Trouble, now: int, waits: Waits) -> Pilot:
        """There is an outage: wait with the batch, probe, and go on with the present state when the probe passes.

        Said again by a pilot that is held it means that a probe has failed.
        """
        if self.state is not PilotState.HELD:
            check_move(self.state, PilotState.HELD)
        resumes = self.resumes if self.state is PilotState.HELD else self.state
        return self._waits(PilotState.HELD, resumes, error, now, waits)

    def resumed(self, now: int) -> Pilot:
        """Go on after a wait, an outage or a rest. Whether it is time to do so is the caller's to ask (`is_due`)."""
        if self.is_resting:
            return self.moved(PilotState.CONFIGURE, now)
        if not self.is_waiting or self.resumes is None:
            raise IllegalFlowMove("a pilot", self.state, "resumed", ())
        return self.moved(self.resumes, now)

    def paused(self, reason: str, now: int) -> Pilot:
        return self._rests(PilotState.PAUSED, reason, now)

    def stopped(self, reason: str, now: int) -> Pilot:
        return self._rests(PilotState.STOPPED, reason, now)

    def halted(self, reason: str, now: int) -> Pilot:
        return self._rests(PilotState.HALTED, reason, now)

    def _waits(self, state: PilotState, resumes: PilotState | None, error: Trouble, now: int, waits: Waits) -> Pilot:
        failing = self.resumes if self.state is PilotState.HELD else self.state
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

    def _after_success_of(self, state: PilotState) -> Pilot:
        after = replace(self, attempt=0, failing=None) if self.failing is state else self
        return (
            replace(after, batch_id=None, uncategorised=0) if state in (PilotState.ERRORS, PilotState.RESET) else after
        )

    def _rests(self, state: PilotState, reason: str, now: int) -> Pilot:
        check_move(self.state, state)
        return replace(self._going_on(), state=state, since=now, reason=reason)

    def _going_on(self) -> Pilot:
        return replace(self, next_try=None, resumes=None, reason="")

    # Storing

    def to_value(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_value(cls, value: dict[str, Any]) -> Self:
        """Names that it does not know were written by a newer Towpath and are left out."""
        known = {name: value[name] for name in cls.__dataclass_fields__ if name in value}
        for name in ("state", "resumes", "failing"):
            known[name] = None if known.get(name) is None else PilotState(known[name])
        if error := known.get("last_error"):
            known["last_error"] = Trouble(ErrorCode(error["code"]), error["step"], error["message"], error["at"])
        return cls(**known)

    def to_json(self) -> str:
        return json.dumps(self.to_value())

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.from_value(json.loads(text))
