"""The k-th of each input together: what waits in, a record in, a full slot out. Pure.

A record that cannot be read has its place in the row all the same: its slot stays open until its replay fills it, and
those behind it are joined meanwhile. Where waiting has an end, a slot leaves as a whole when the first that came to it
has waited long enough; what comes later is counted among those that still wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from itertools import chain, islice, zip_longest
from typing import Any, NamedTuple, Self


class Entry(NamedTuple):
    """A record that waits, since the time of its batch. Without a value it is the place of one that failed."""

    topic: str
    partition: int
    offset: int
    value: bytes | None
    since_ms: int = 0

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

    def find(self, coordinates: tuple[str, int, int]) -> Entry | None:
        """What is kept of this record: itself, or the place of one that failed."""
        entries = chain(*self.queues, *self.open)
        return next((entry for entry in entries if entry.coordinates == coordinates), None)

    def leave(self, latest_ms: int) -> list[Entry | None] | None:
        """Take out the slot that has waited longest, if that is since `latest_ms` or longer; None for what is missing.

        A slot in which all have failed leaves too; there is nothing to tell of it.
        """
        while (since_ms := min(self._since(), default=None)) is not None and since_ms <= latest_ms:
            at = next((at for at, slot in enumerate(self.open) if _since_of(slot) == since_ms), None)
            slot = [queue.popleft() if queue else None for queue in self.queues] if at is None else self.open.pop(at)
            good = [entry if entry is not None and entry.value is not None else None for entry in slot]
            if any(good):
                return good
        return None

    def _since(self) -> Iterator[int]:
        """Of each slot that may leave next."""
        yield from map(_since_of, self.open)
        yield from (queue[0].since_ms for queue in self.queues if queue)

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


def waiting_since(value: Any, most: int) -> list[int]:
    """Since when the slots of a key wait that have waited longest, from the value that is kept."""
    queues, open = value
    heads = [[_since_ms(entry) for entry in islice(queue, most)] for queue in queues]
    by_place = [min(each for each in place if each is not None) for place in zip_longest(*heads)]
    return nsmallest(most, [*by_place, *(min(map(_since_ms, slot)) for slot in open)])


def _since_ms(entry: Sequence[Any]) -> int:
    """What was kept by a version that noted no time has waited long enough."""
    since_ms: int = entry[4] if len(entry) > 4 else 0
    return since_ms


def _since_of(slot: Sequence[Entry]) -> int:
    return min(entry.since_ms for entry in slot)


def _is_full(slot: Sequence[Entry]) -> bool:
    return all(entry.value is not None for entry in slot)
