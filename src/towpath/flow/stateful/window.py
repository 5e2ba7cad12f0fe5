"""Which numbers of one sender were seen: state in, number in, verdict out. Pure.

What was seen is kept as stretches of numbers, so that a sender who counts without gaps has one, however long it sends.
A number is known to be a duplicate as long as its stretch is kept, also far behind the highest. A number that was not
seen is new if it is above the highest, or behind it by no more than the window. All else is late: nobody can say any
more whether it was seen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from enum import StrEnum
from typing import Self

MOST_STRETCHES = 1_000  # of one sender that are kept beyond the window


class Seen(StrEnum):
    """What is known about a number."""

    NEW = "new"  # was not seen until now
    BEFORE = "before"  # was seen before
    LATE = "late"  # too far behind the highest, or of an earlier epoch


class Window:
    """The numbers of one sender. `edges`: where stretches begin and end, in turn, ends not included, growing."""

    __slots__ = ("edges", "epoch")

    def __init__(self, epoch: int = 0, edges: Sequence[int] = ()) -> None:
        self.epoch = epoch
        self.edges = list(edges)

    def see(self, number: int, epoch: int, size: int) -> Seen:
        """Look whether a number was seen, and remember a new one. One that is late is not remembered."""
        if epoch != self.epoch and self.edges:
            if epoch < self.epoch:
                return Seen.LATE
            self.edges = []
        self.epoch = epoch
        edges = self.edges
        if edges and number == edges[-1]:  # the next one, nearly always
            edges[-1] += 1
            return Seen.NEW
        if bisect_right(edges, number) % 2:
            return Seen.BEFORE
        if edges and edges[-1] - 1 - number > size:
            return Seen.LATE
        self.add(number, size)
        return Seen.NEW

    def add(self, number: int, size: int) -> None:
        """Remember a number that was not seen."""
        edges = self.edges
        at = bisect_right(edges, number)
        begins = [] if at and edges[at - 1] == number else [number]
        ends = [] if at < len(edges) and edges[at] == number + 1 else [number + 1]
        edges[at - (not begins) : at + (not ends)] = [*begins, *ends]
        # Stretches that begin inside the window are never forgotten: what lies between them may still come.
        while len(edges) > 2 * MOST_STRETCHES and edges[1] < edges[-1] - size:
            del edges[:2]

    def to_value(self) -> list[int]:
        return [self.epoch, *self.edges]

    @classmethod
    def from_value(cls, value: Sequence[int]) -> Self:
        return cls(value[0], value[1:])
