"""The k-th of each input together: what waits in, a record in, a full slot out. Pure.

A record that cannot be read has its place in the row all the same: its slot stays open until its replay fills it, and
those behind it are joined meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Self


class Entry(NamedTuple):
    """A record that waits. Without a value it is the place of one that failed."""

    topic: str
    partition: int
    offset: int
    value: bytes | None

    @property
    def coordinates(self) -> tuple[str, int, int]:
        return self[:3]


class Slots:
    """What waits of one key: a queue for each input, and slots in which one is missing because it failed."""

    def __init__(self, queues: Sequence[Sequence[Any]], open: Sequence[Sequence[Any]] = ()) -> None:
        self.queues = [deque(Entry(*entry) for entry in queue) for queue in queues]
        self.open = [[Entry(*entry) for entry in slot] for slot in open]

    @classmethod
    def of(cls, inputs: int, value: Any = None) -> Self:
        return cls([[] for _ in range(inputs)]) if value is None else cls(*value)

    def to_value(self) -> list[Any]:
        return [[list(queue) for queue in self.queues], self.open]

    @property
    def is_empty(self) -> bool:
        return not self.open and not any(self.queues)

    def add(self, input: int, entry: Entry) -> list[Entry] | None:
        """The slot that is full by it; None: it waits."""
        self.queues[input].append(entry)
        if not all(self.queues):
            return None
        slot = [queue.popleft() for queue in self.queues]
        if _is_full(slot):
            return slot
        self.open.append(slot)
        return None

    def is_missing(self, coordinates: tuple[str, int, int]) -> bool:
        """Whether the place of this record is kept because it failed."""
        entries = [
            *(entry for queue in self.queues for entry in queue),
            *(entry for slot in self.open for entry in slot),
        ]
        return any(entry.coordinates == coordinates and entry.value is None for entry in entries)

    def fill(self, entry: Entry) -> list[Entry] | None:
        """Put the replay of a record that failed in its place; the slot that is full by it, or None."""
        for queue in self.queues:
            for at, waiting in enumerate(queue):
                if waiting.coordinates == entry.coordinates:
                    queue[at] = entry
                    return None
        for number, slot in enumerate(self.open):
            for at, waiting in enumerate(slot):
                if waiting.coordinates == entry.coordinates:
                    slot[at] = entry
                    return self.open.pop(number) if _is_full(slot) else None
        return None


def _is_full(slot: Sequence[Entry]) -> bool:
    return all(entry.value is not None for entry in slot)
