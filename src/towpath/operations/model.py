"""What all operations share: the base of bodies that are sent, limits of fields, and pages of answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from towpath.queue.payload import DEEPEST_NESTING, holds_nul, is_too_deep

MOST_ROWS = 1_000
LARGEST = 2**63 - 1  # that a database can hold
LONGEST_WHY = 2_000
LONGEST_DELAY_S = 10 * 365 * 86400.0

Item = dict[str, Any]
Named = Annotated[str, Field(min_length=1, max_length=300)]
Why = Annotated[str, Field(min_length=1, max_length=LONGEST_WHY, description="Why; kept with the change.")]

T = TypeVar("T")


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


class Numbered(Protocol):
    """A row of a list that is ordered by a number."""

    @property
    def seq(self) -> int:
        """By what pages are cut."""


N = TypeVar("N", bound=Numbered)


def page(found: Sequence[N], limit: int, shown: Callable[[N], T]) -> Page[T]:
    """A page of what was asked for with one more than `limit`."""
    part, following = cut(found, limit)
    return Page(items=[shown(each) for each in part], next=following)


def cut(found: Sequence[N], limit: int) -> tuple[Sequence[N], int | None]:
    """The rows of a page of what was asked for with one more than `limit`, and where the next page begins."""
    return found[:limit], found[limit - 1].seq if len(found) > limit else None
