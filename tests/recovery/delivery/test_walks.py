"""Crash after crash, at every point with every strategy, sink and shape; of any two points, the one after the other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.recovery.delivery.points import POINTS, Case, product_of
from tests.recovery.delivery.rig import Rig
from tests.recovery.delivery.shapes import FORK, MANY, REFUSING
from tests.recovery.delivery.walks import SHAPES_OF_WALKS, Walk, possible_steps, walks

from towpath.flow.delivery.ids import Strategy

MakeRig = Callable[[Case], Rig]
WALKS = walks()
FAST = [
    next(walk for walk in WALKS if (walk.shape, walk.strategy, walk.target) == wanted)
    for wanted in (
        (MANY, Strategy.EXACTLY_ONCE, "topic"),
        (FORK, Strategy.EXACTLY_ONCE, "postgres"),
        (REFUSING, Strategy.AT_MOST_ONCE, "index"),
    )
]


@pytest.mark.parametrize("walk", FAST, ids=str)
def test_walk(walk: Walk, make_rig: MakeRig) -> None:
    assert make_rig(walk.case).walk(walk.points) == []


@pytest.mark.part("walks")
@pytest.mark.parametrize("walk", WALKS, ids=str)
def test_walks(walk: Walk, make_rig: MakeRig) -> None:
    test_walk(walk, make_rig)


def test_every_run_of_the_tests_dies_at_every_point() -> None:
    assert {point for walk in FAST for point in walk.points} == set(POINTS)


def test_walks_hold_every_point_and_every_step() -> None:
    cases = product_of(SHAPES_OF_WALKS)
    found = {(walk.shape.name, walk.strategy, walk.target, point) for walk in WALKS for point in walk.points}
    assert found == {(case.shape.name, case.strategy, case.target, case.point) for case in cases}
    assert {step for walk in WALKS for step in walk.steps} >= possible_steps(cases)
