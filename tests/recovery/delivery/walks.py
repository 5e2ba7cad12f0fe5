"""Many deaths of one flow, one after the other: every attempt recovers from the last, and dies at the next point.

So one attempt stands for a crash and for the recovery from another, and the pairs of crashes come with the order: of
any two points that a flow can pass, some walk dies at the one in the first attempt to recover from the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product

from tests.recovery.delivery.points import POINTS, Case, product_of
from tests.recovery.delivery.shape import Shape
from tests.recovery.delivery.shapes import SHAPES

from towpath.core.crash import CrashPoint as P
from towpath.flow.delivery.ids import Strategy

Step = tuple[P, P]
# What has to be brought about for each of their crashes, and takes as many attempts as by itself, is no walk.
SHAPES_OF_WALKS = tuple(shape for shape in SHAPES.values() if not (shape.is_first or shape.is_timed))


@dataclass(frozen=True)
class Walk:
    """A strategy, sink and shape, with all points that these can pass."""

    shape: Shape
    strategy: Strategy
    target: str
    points: tuple[P, ...]

    def __str__(self) -> str:
        return f"{self.shape.name}-{self.strategy}-{self.target}-{len(self.points)}"

    @property
    def case(self) -> Case:
        return Case(self.shape, self.strategy, self.target, self.points[0])

    @property
    def steps(self) -> set[Step]:
        """Of deaths in the first attempt after another."""
        return set() if self.shape.is_remade else set(zip(self.points, self.points[1:], strict=False))


def walks() -> list[Walk]:
    """One for each strategy, sink and shape; then some for steps from one point to another that no order had."""
    made = []
    cases = product_of(SHAPES_OF_WALKS)
    missing = possible_steps(cases)
    for number, group in enumerate(_groups(cases)):
        points = _ordered([case.point for case in group], missing, number)
        walk = Walk(group[0].shape, group[0].strategy, group[0].target, points)
        missing -= walk.steps
        made.append(walk)
    return [*made, *_rest(cases, missing)]


def possible_steps(cases: Sequence[Case]) -> set[Step]:
    """A generation begins before everything else, and once: who dies right after it finds it begun."""
    found: set[Step] = set()
    for group in _groups(cases):
        points = [case.point for case in group]
        found |= {(one, other) for one, other in product(points, repeat=2) if other is not P.GENERATION_BEGUN}
    return found


def _groups(cases: Sequence[Case]) -> Iterator[list[Case]]:
    for _, group in groupby(cases, lambda case: (case.shape.name, case.strategy, case.target)):
        yield list(group)


def _ordered(points: Sequence[P], missing: set[Step], number: int) -> tuple[P, ...]:
    """Each once, or twice in a row where that is missing; next comes what is missing, in turn over the walks."""
    order = [P.GENERATION_BEGUN]
    left = [point for point in points if point is not P.GENERATION_BEGUN]
    while left:
        turn = number % len(left)
        left = [*left[turn:], *left[:turn]]
        last = order[-1]
        best = next((point for point in left if (last, point) in missing), left[0])
        left.remove(best)
        order += [best, best] if (best, best) in missing else [best]
    return tuple(order)


def _rest(cases: Sequence[Case], missing: set[Step]) -> Iterator[Walk]:
    groups = list(_groups(cases))
    for first, second in sorted(missing, key=lambda step: (POINTS.index(step[0]), POINTS.index(step[1]))):
        group = next(group for group in groups if {first, second} <= {case.point for case in group})
        points = dict.fromkeys((P.GENERATION_BEGUN, first))  # a batch before, so that there is something to recover
        yield Walk(group[0].shape, group[0].strategy, group[0].target, (*points, second))
