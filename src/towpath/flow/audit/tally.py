"""How many records lie between any two of the offsets that matter. Pure: offsets in, counts out.

Offsets are not dense, so only reading counts. A partition is read once, from the first offset that matters to the last,
and what lies between two neighbours is added up; every range of every batch is then a sum of these.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from towpath.flow.positions import Range


class Tally:
    """Counts of one partition. `kept_from` is the first offset that could still be read."""

    def __init__(self, edges: Iterable[int], kept_from: int = 0) -> None:
        self.edges: Sequence[int] = sorted(set(edges))
        self.kept_from = kept_from
        self._counts = [0] * len(self.edges)
        self._sums: list[int] | None = None

    def add(self, offsets: Iterable[int]) -> None:
        """Records that were read, in order."""
        edges, counts = self.edges, self._counts
        at, upper = -1, edges[0]
        for offset in offsets:
            while offset >= upper:
                at += 1
                upper = edges[at + 1] if at + 1 < len(edges) else 1 << 63
            if at >= 0:
                counts[at] += 1
        self._sums = None

    def count(self, place: Range) -> int:
        """How many records a range holds whose ends are among the edges."""
        if self._sums is None:
            self._sums = [0, *accumulate(self._counts)]
        return self._sums[bisect_left(self.edges, place.stop)] - self._sums[bisect_left(self.edges, place.start)]

    def is_whole(self, place: Range) -> bool:
        """Whether nothing of a range was deleted."""
        return place.is_empty or place.start >= self.kept_from
