"""Few cases that hold every pair: of any two dimensions, every two values that can occur together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations

from tests.recovery.delivery.points import Case

Pair = tuple[int, str, int, str]


def _values(case: Case) -> tuple[str, ...]:
    return case.shape.name, case.strategy, case.target, case.point


def pairs_of(case: Case) -> Iterator[Pair]:
    for (a, one), (b, other) in combinations(enumerate(_values(case)), 2):
        yield a, one, b, other


def pairwise(cases: Sequence[Case]) -> list[Case]:
    """A choice of the cases with every pair that is in any of them: greedily the one with most that is new."""
    left = {pair for case in cases for pair in pairs_of(case)}
    # Those with most that is new, as it was when somebody looked last: it only gets less.
    heap = [(-len(set(pairs_of(case))), number) for number, case in enumerate(cases)]
    heapify(heap)
    chosen = []
    while left:
        _, number = heappop(heap)
        new = left & set(pairs_of(cases[number]))
        if heap and len(new) < -heap[0][0]:
            heappush(heap, (-len(new), number))
        else:
            left -= new
            chosen.append(cases[number])
    return chosen


def table(cases: Sequence[Case]) -> str:
    """For people: a line for each case."""
    return "\n".join(f"{number:4}  {case}" for number, case in enumerate(cases, 1))
