"""towpath.operations.model"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from towpath.queue.payload import DEEPEST_NESTING, holds_nul, is_too_deep

Item = dict[str, Any]


Named = Annotated[str, Field(min_length=1, max_length=300)]


T = TypeVar("T")

MOST_ROWS = 1_000
LARGEST = 2**63 - 1  # that a database can hold
LONGEST_WHY = 2_000
Why = Annotated[str, Field(min_length=1, max_length=LONGEST_WHY, description="Why; kept with the change.")]


class RequestBody(BaseModel):
    """A body that is sent. What is not known in it is refused."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _can_be_kept(cls, value: Any) -> Any:
        if is_too_deep(value):
            raise ValueError(f"it is nested deeper than {DEEPEST_NESTING} levels")
        if holds_nul(value):
            raise ValueError("it holds a NUL character")
        return value


class Reason(RequestBody):
    """Why something is done."""

    why: Why


class Page(BaseModel, Generic[T]):
    """A part of a list, the newest first."""

    items: list[T]
    next: int | None = Field(description="Ask for the next page with this as `before`; null: this is the last one.")


class MarkedPage(BaseModel, Generic[T]):
    """A part of a list that is not ordered by numbers alone."""

    items: list[T]
    next: str | None = Field(description="Ask for the next page with this as `before`; null: this is the last one.")


class NamedPage(BaseModel, Generic[T]):
    """A part of a list, by name."""

    items: list[T]
    next: str | None = Field(description="Ask for the next page with this as `after`; null: this is the last one.")


class _Numbered(Protocol):
    @property
    def seq(self) -> int:
        """By what pages are cut."""


N = TypeVar("N", bound=_Numbered)


def page(found: Sequence[N], limit: int, shown: Callable[[N], T]) -> Page[T]:
    """A page of what was asked for with one more than `limit`."""
    part = found[:limit]
    return Page(items=[shown(each) for each in part], next=part[-1].seq if len(found) > limit else None)
