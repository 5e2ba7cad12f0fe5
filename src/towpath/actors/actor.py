"""What users write an actor with: the base class, `@state`, and what `transition` may return besides a state.

A state is a frozen dataclass that declares what happens to it when its process dies (`Resume`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform, overload

from towpath.errors import BadValue

if TYPE_CHECKING:
    from towpath.actors.instance_store import ActorContext
    from towpath.actors.turn import Turn

T = TypeVar("T")

_RESUME = "__towpath_resume__"


class Actor(ABC):
    """A durable state machine. Its docstring's first sentence is what people see.

    One object of the class serves all its instances, from several threads at once: what a run has to remember belongs
    into its states. The annotation of `transition` names the states, the first of them being the usual start.
    """

    name: ClassVar[str] = ""
    """What people and the queue call it; by default the class's name in small letters, with hyphens."""

    def on_register(self, parts: ActorContext, /) -> None:
        """Called when a process makes the class known, before any instance of it runs there."""

    def watches(self) -> Mapping[str, str]:
        """States that only look from time to time whether something has come, each with the inbox that it watches."""
        return {}

    @abstractmethod
    def transition(self, state: Any, turn: Turn, /) -> Any:
        """The code of all states, as one `match`; what it returns comes next.

        That is a state, `Sleep`, `Wait`, `End()` or `Failed(reason)`. `End` and `Failed` are passed through here as
        well, for clean-up; what is returned for them does not matter.
        """


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


class Resume(StrEnum):
    """What becomes of a state whose process died while its code ran."""

    RETRY = "retry"  # its code runs again: it must be able to bear that
    RESTART = "restart"  # the run begins anew, from the state that it was started with
    FAIL = "fail"  # the instance has failed, and a person decides


@overload
@dataclass_transform(frozen_default=True)
def state(cls: type[T], /) -> type[T]: ...


@overload
@dataclass_transform(frozen_default=True)
def state(*, resume: Resume = Resume.FAIL) -> Callable[[type[T]], type[T]]: ...


def state(cls: type[T] | None = None, /, *, resume: Resume = Resume.FAIL) -> Any:
    """Make a class a state: a frozen dataclass that says how to go on after a crash."""

    def make(cls: type[T]) -> type[T]:
        made = dataclass(frozen=True)(cls)
        setattr(made, _RESUME, Resume(resume))
        return made

    return make if cls is None else make(cls)


def resume_of(cls: type[Any]) -> Resume:
    """What the state says; a plain frozen dataclass says nothing, and fails."""
    declared: Resume = getattr(cls, _RESUME, Resume.FAIL)
    return declared


@state(resume=Resume.RETRY)
class End:
    """The run has done its work; `result` is what who started it is told. Handle it to clean up."""

    result: Any = None


@state(resume=Resume.RETRY)
class Failed:
    """The run cannot go on, for a reason that a person understands. Handle it to clean up."""

    reason: str


TERMINAL: tuple[type[Any], ...] = (End, Failed)
