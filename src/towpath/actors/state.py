"""What states are made of: frozen dataclasses, each with what becomes of it when its process dies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")

_RESUME = "__towpath_resume__"


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
