"""Few cases that hold every pair: of any two dimensions, every two values that can occur together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations, product

from tests.recovery.delivery.points import POINTS, Case, product_of

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


def twice() -> list[Case]:
    """Every point, and then in the recovery every point that can be passed by the same case, each in one case."""
    by_point: dict[str, list[Case]] = {}
    for case in product_of():
        by_point.setdefault(case.point, []).append(case)
    made = []
    for number, (first, second) in enumerate(product(POINTS, repeat=2)):
        fitting = [
            case
            for case in by_point.get(first, ())
            if Case(case.shape, case.strategy, case.target, second).why_not() is None
        ]
        if fitting:
            case = fitting[number % len(fitting)]
            made.append(Case(case.shape, case.strategy, case.target, first, second))
    return made


def table(cases: Sequence[Case]) -> str:
    """For people: a line for each case."""
    return "\n".join(f"{number:4}  {case}" for number, case in enumerate(cases, 1))
