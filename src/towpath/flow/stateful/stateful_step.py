"""A user's function that remembers: called with one document at a time and the state of its key."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from towpath.errors import BadFlow
from towpath.flow.stateful.record_part import RecordPart


class Moment(NamedTuple):
    """What a function may ask beside document and state. `now_ms` is the time of the batch, the same on every attempt.

    `is_replay`: the record comes back from the desk. If it had failed in this function, its state knows nothing of it;
    if it had failed behind it, the state knows it already.
    """

    key: bytes
    now_ms: int
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    is_replay: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class StatefulStep:
    """The function and the part of a record by which it has a state; `expire_s` after its last record that is gone."""

    name: str
    function: Callable[..., Any] = field(repr=False)
    key: RecordPart
    expire_s: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.key, RecordPart):
            raise BadFlow(f"stateful {self.name!r}: key is header(…), key() or field(…), not {self.key!r}")
        if self.expire_s is not None and not self.expire_s > 0:
            raise BadFlow(f"stateful {self.name!r}: expire_s must be above 0, not {self.expire_s!r}")
        if len(inspect.signature(self.function).parameters) not in (2, 3):
            raise BadFlow(f"stateful {self.name!r}: the function takes a document and a state, and perhaps the moment")

    @property
    def wants_moment(self) -> bool:
        return len(inspect.signature(self.function).parameters) == 3

    def __str__(self) -> str:
        expires = "" if self.expire_s is None else f", expires after {self.expire_s:g} s"
        return f"state of {self.key}{expires}"
