"""One attempt dies at a crash point, the next ones recover: what is there in the end is held against an oracle.

Here are the shapes that have to be brought to their crash one by one; the others go through all of theirs in a walk.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.recovery.delivery.pairs import pairs_of, pairwise
from tests.recovery.delivery.points import (
    APPENDS,
    ELSEWHERE,
    POINTS,
    TARGETS,
    Case,
    impossible,
    later_passes,
    product_of,
)
from tests.recovery.delivery.rig import Rig
from tests.recovery.delivery.shapes import CHAIN, MANY, PARTS, SHAPES, SINGLE
from tests.recovery.delivery.walks import SHAPES_OF_WALKS

import towpath
from towpath.core.crash import CrashPoint as P
from towpath.flow.delivery.ids import Strategy

MakeRig = Callable[[Case], Rig]
ALL = product_of()
ONE_BY_ONE = tuple(shape for shape in SHAPES.values() if shape not in SHAPES_OF_WALKS)
# In every run of the tests: each sink, each strategy and each shape that has no walk there (test_walks.py).
WALKED = ("many", "fork", "refusing")
FAST = [
    *(Case(SHAPES[name], Strategy.EXACTLY_ONCE, "topic", P.BATCH_LOADED) for name in SHAPES if name not in WALKED),
    *(Case(SINGLE, Strategy.EXACTLY_ONCE, target, P.OUTCOME_STORED) for target in ("kafka", "sqlite", "files")),
    Case(MANY, Strategy.AT_LEAST_ONCE, "topic", P.BATCH_LOADED),
    Case(PARTS, Strategy.EXACTLY_ONCE, "sqlite", P.TABLE_BEFORE_COMMIT, passed=2),
    Case(CHAIN, Strategy.EXACTLY_ONCE, "topic", P.OUTCOME_STORED, passed=2),
]


@pytest.mark.parametrize("case", dict.fromkeys(FAST), ids=str)
def test_recovers(case: Case, make_rig: MakeRig) -> None:
    rig = make_rig(case)
    assert rig.run() == []
    assert rig.fired == [True], "nobody came by there"


@pytest.mark.part("recovery")
@pytest.mark.parametrize("case", [*product_of(ONE_BY_ONE), *later_passes()], ids=str)
def test_recovers_everywhere(case: Case, make_rig: MakeRig) -> None:
    test_recovers(case, make_rig)


def test_every_point_of_a_flow_is_in_the_product() -> None:
    """A point that somebody adds has to be given its place, or be one that no batch of a flow passes."""
    assert set(POINTS) == _named_in("flow", "log") - ELSEWHERE.keys()
    assert {case.point for case in ALL} == set(POINTS)
    assert {case.target for case in ALL} == set(TARGETS)
    assert impossible(), "some cannot occur, and each is told with its reason"


def _named_in(*folders: str) -> set[P]:
    """By the code of these folders."""
    files = [path for folder in folders for path in (Path(towpath.__file__).parent / folder).rglob("*.py")]
    return {P[name] for path in files for name in re.findall(r"CrashPoint\.([A-Z_]+)", path.read_text())}


def test_every_point_is_passed_in_the_first_batch_and_in_a_later_one() -> None:
    wanted = {(case.strategy, case.point, batch) for case in ALL for batch in (0, 1)}
    only_first = {(strategy, P.GENERATION_BEGUN, 1) for strategy in Strategy}
    only_later = {(Strategy.EXACTLY_ONCE, point, 0) for point in APPENDS}  # of ticks, for which alarms are set before
    assert {(case.strategy, case.point, case.batch) for case in ALL} == wanted - only_first - only_later


def test_pairs_are_all_there() -> None:
    chosen = pairwise(ALL)
    assert {pair for case in chosen for pair in pairs_of(case)} == {pair for case in ALL for pair in pairs_of(case)}
    assert len(chosen) < len(ALL) / 4
