"""A step at the end of an upload, as the flow file declares it. The flow only keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from towpath.errors import BadFlow


@dataclass(frozen=True, eq=False, slots=True)
class ClosingStep:
    """A function from DataFrames to a DataFrame, run once for each upload of a stream. Called, it is that function."""

    stream: str
    name: str
    result: str  # the query that gets its rows
    collected: tuple[str, ...]  # the names whose rows it is given, in the order of its parameters
    function: Callable[..., Any] = field(repr=False)
    order_by: tuple[str, ...] = ()  # columns; none: all of them
    columns: tuple[str, ...] | None = None  # of its CSV

    def __call__(self, *frames: Any) -> Any:
        return self.function(*frames)


def names(what: str, said: Iterable[str] | str) -> tuple[str, ...]:
    """One name or several, each once."""
    found = (said,) if isinstance(said, str) else tuple(said)
    if not all(found) or len(set(found)) < len(found):
        raise BadFlow(f"{what} is one name or several, each once, not {said!r}")
    return found
