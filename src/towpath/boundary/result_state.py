"""The states of a result and the one move between them; the chart in docs/reference/upload-states.md is held equal."""

from __future__ import annotations

from enum import StrEnum


class ResultKind(StrEnum):
    """When the rows of a query come."""

    STREAMED = "streamed"  # with the records, batch by batch
    CLOSING = "closing"  # at the end of the upload, all at once


class ResultState(StrEnum):
    """Whether more can come."""

    OPEN = "open"  # more rows may come
    COMPLETE = "complete"  # these are all


MOVES: dict[ResultState, frozenset[ResultState]] = {
    ResultState.OPEN: frozenset({ResultState.COMPLETE}),
    ResultState.COMPLETE: frozenset(),
}
