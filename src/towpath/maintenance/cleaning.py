"""Something that can be cleaned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

Unit = Literal["bytes", "rows"]


class Size(NamedTuple):
    """How large something is. `is_more`: at least so many rows, further ones were not counted."""

    amount: int
    unit: Unit
    is_more: bool = False


@dataclass(frozen=True, slots=True)
class Cleaning:
    """How it is measured, and what cleans it: a function of who wants it and why, that says how much of what it did."""

    name: str
    about: str
    size: Callable[[], Size]
    run: Callable[[str, str], Mapping[str, int]]
    hindrance: Callable[[], str | None] = lambda: None  # why it should not be done now
