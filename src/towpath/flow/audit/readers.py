"""Reading back what an output has been given. Each kind of sink has its adapter here; a sink of a user's own may have a
method `delivered()` that gives the delivery ids it holds, as bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable


class Delivered(NamedTuple):
    """A delivery that is there, and how a person finds it."""

    delivery_id: bytes
    name: str


class Flaw(NamedTuple):
    """Something in the sink itself that does not fit."""

    where: str
    expected: str
    found: str


class Reach(Enum):
    """How much of what was delivered a sink still has."""

    ALL = "all"  # what is not there is missing
    PART = "part"  # something newer may have taken its place, or its time is over


class SinkReader(Protocol):
    """Reads one output from its beginning, as often as it is asked to."""

    @property
    def reach(self) -> Reach:
        """What an absent delivery means."""

    @property
    def why_part(self) -> str:
        """Why not all of it is kept, where that is so."""

    @property
    def per_batch(self) -> bool:
        """Whether every batch that reads an input again leaves a copy of its own, as after a reset."""

    @property
    def is_idempotent(self) -> bool:
        """Whether a delivery that is there twice is a fault."""

    @property
    def flaws(self) -> list[Flaw]:
        """Found by the last reading."""

    def delivered(self) -> Iterator[Delivered]:
        """Everything that is there, in no order."""

    def close(self) -> None:
        """Let go of connections."""


class Versioned(NamedTuple):
    """A document whose id is the flow's own, and its version."""

    version: int
    name: str


@dataclass(slots=True)
class Unreadable:
    """An output that cannot be read back, and why."""

    why: str


@runtime_checkable
class OwnSink(Protocol):
    """A sink of a user's own that can be read back."""

    is_idempotent: bool

    def delivered(self) -> Iterator[bytes]:
        """The delivery ids of all that it holds; one that it holds twice, twice."""


@dataclass(slots=True)
class OwnReader:
    """Reads a sink that offers `delivered()`."""

    sink: OwnSink
    reach = Reach.ALL
    why_part = ""
    per_batch = False
    flaws: list[Flaw] = field(default_factory=list)

    @property
    def is_idempotent(self) -> bool:
        return self.sink.is_idempotent

    def delivered(self) -> Iterator[Delivered]:
        return (Delivered(id, f"delivery {id.hex()}") for id in self.sink.delivered())

    def close(self) -> None:
        pass


def foreign(name: str) -> Delivered:
    """Something that bears no delivery id: no offset gives this one, so it is found to be unknown."""
    return Delivered(hashlib.sha256(b"towpath audit: foreign\n" + name.encode()).digest(), name)
