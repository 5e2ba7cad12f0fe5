"""The states of a data set and every move between them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DataSetState(StrEnum):
    """How much of a data set is there."""

    MAKING = "making"  # some of it, perhaps: somebody is at it, or has died at it
    READY = "ready"  # all of it
    DELETING = "deleting"  # perhaps some of it is left: nobody may begin to use it
    DELETED = "deleted"  # nothing; the row says what it was


class DataSetMove(StrEnum):
    """What can happen to a data set. The value is the label of its arrow in a chart."""

    FINISH = "finished"
    DELETE = "deletion begun"
    REMOVE = "removed"
    REPLACE = "replaced"  # another one is ready in its place


@dataclass(frozen=True, slots=True)
class Arrow:
    """One move: from which states, to which."""

    sources: tuple[DataSetState, ...]
    target: DataSetState


_MAKING, _READY, _DELETING, _DELETED = DataSetState

MOVES: dict[DataSetMove, Arrow] = {
    DataSetMove.FINISH: Arrow((_MAKING,), _READY),
    DataSetMove.DELETE: Arrow((_MAKING, _READY), _DELETING),
    DataSetMove.REMOVE: Arrow((_DELETING,), _DELETED),
    DataSetMove.REPLACE: Arrow((_READY,), _DELETED),
}
