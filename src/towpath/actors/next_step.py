"""What a transition may return besides a state: a state that does not run at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from towpath.errors import BadValue


@dataclass(frozen=True)
class Sleep:
    """Go on with `then` after so many seconds, or at a time. It survives restarts."""

    then: Any
    seconds: float | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if (self.seconds is None) == (self.until is None):
            raise BadValue("Sleep takes either seconds or until")
        if self.seconds is not None and not 0 <= self.seconds < 1e10:
            raise BadValue(f"Sleep: seconds={self.seconds!r} must be a number of seconds, 0 or more")
        if self.until is not None and self.until.tzinfo is None:
            raise BadValue(f"Sleep: until={self.until} has no time zone; use an aware datetime, such as in UTC")


@dataclass(frozen=True)
class Wait:
    """Go on with `then` when the messages have their answers: all of them, or so many as `needs` says.

    When they are not there in time, `otherwise` runs in the place of `then`; without it the actor has failed. Waiting
    again after a restart sends nothing again.
    """

    answers_to: str | Sequence[str]
    then: Any
    timeout_s: float | None = None
    otherwise: Any = None
    needs: int | None = None

    def __post_init__(self) -> None:
        if not self.ids:
            raise BadValue("Wait: answers_to names no message; return the next state itself")
        if not all(isinstance(each, str) for each in self.ids):
            raise BadValue("Wait: answers_to takes the ids that turn.send and turn.call return")
        if self.needs is not None and not 1 <= self.needs <= len(self.ids):
            raise BadValue(f"Wait: needs={self.needs} must be between 1 and {len(self.ids)}, the number of messages")
        if self.timeout_s is not None and not 0 < self.timeout_s < 1e10:
            raise BadValue(f"Wait: timeout_s={self.timeout_s!r} must be a number of seconds above 0")
        if self.otherwise is not None and self.timeout_s is None:
            raise BadValue("Wait: otherwise is never reached without timeout_s")

    @property
    def ids(self) -> tuple[str, ...]:
        """Each once, in order."""
        given = (self.answers_to,) if isinstance(self.answers_to, str) else self.answers_to
        return tuple(dict.fromkeys(given))
