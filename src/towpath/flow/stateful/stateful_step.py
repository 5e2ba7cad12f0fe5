"""A user's function that remembers: called with one document at a time and the state of its key."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from towpath.errors import BadFlow
from towpath.flow.stateful.record_part import RecordPart

LAST_MS = 253_402_300_799_999  # of the year 9999


@dataclass(slots=True)
class Moment:
    """What a function may ask beside document and state. `now_ms` is the time of the batch, the same on every attempt.

    `is_replay`: the record comes back from the desk. If it had failed in this function, its state knows nothing of it;
    if it had failed behind it, the state knows it already. `due_ms`: when the key is to be woken as yet; for `on_wake`,
    when it was to be. Each key has one alarm: setting it again moves it, and once it has rung it is off.
    """

    key: bytes
    now_ms: int
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    is_replay: bool = False
    due_ms: int | None = None
    next_ms: int | None = field(default=None, repr=False)  # the alarm as the function leaves it
    can_wake: bool = field(default=True, repr=False)

    def wake_at(self, ms: int) -> None:
        """Have `on_wake` called for this key at that time, in ms since 1970, or soon after it."""
        if not self.can_wake:
            raise TypeError("nobody could be woken: give the step on_wake=")
        if type(ms) is not int:
            raise TypeError(f"a time is a whole number of milliseconds since 1970, not {ms!r}")
        if not 0 <= ms <= LAST_MS:
            raise ValueError(f"a time is in milliseconds since 1970, from 0 to {LAST_MS} (the year 9999), not {ms!r}")
        self.next_ms = ms

    def wake_in(self, seconds: float) -> None:
        """The same, so many seconds after the time of the batch."""
        if not abs(seconds) <= LAST_MS:  # also what is no number at all
            raise ValueError(f"nobody can wait for {seconds!r} seconds")
        self.wake_at(self.now_ms + round(seconds * 1000))

    def sleep(self) -> None:
        """Have it called no more, until the next `wake_at` or `wake_in`."""
        self.next_ms = None


@dataclass(frozen=True, eq=False, slots=True)
class StatefulStep:
    """The function and the part of a record by which it has a state; `expire_s` after its last record that is gone.

    `on_wake` is called with the state of a key and the moment when the time has come that the function has asked for.
    """

    name: str
    function: Callable[..., Any] = field(repr=False)
    key: RecordPart
    expire_s: float | None = None
    on_wake: Callable[..., Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.key, RecordPart):
            raise BadFlow(f"stateful {self.name!r}: key is header(…), key() or field(…), not {self.key!r}")
        if self.expire_s is not None and not self.expire_s > 0:
            raise BadFlow(f"stateful {self.name!r}: expire_s must be above 0, not {self.expire_s!r}")
        if len(inspect.signature(self.function).parameters) not in (2, 3):
            raise BadFlow(f"stateful {self.name!r}: the function takes a document and a state, and perhaps the moment")
        if self.on_wake is not None and len(inspect.signature(self.on_wake).parameters) != 2:
            raise BadFlow(f"stateful {self.name!r}: on_wake takes a state and the moment")
        if self.on_wake is not None and not self.wants_moment:
            raise BadFlow(f"stateful {self.name!r}: nobody asks to be woken; the function needs the moment for that")

    @property
    def wants_moment(self) -> bool:
        return len(inspect.signature(self.function).parameters) == 3

    def __str__(self) -> str:
        expires = "" if self.expire_s is None else f", expires after {self.expire_s:g} s"
        wakes = "" if self.on_wake is None else ", wakes"
        return f"state of {self.key}{expires}{wakes}"
