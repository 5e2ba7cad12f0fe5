"""One attempt dies at a crash point, the next ones recover: what is there in the end is held against an oracle."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.recovery.delivery.points import DECIDING, DRIVER, LOG, Case
from tests.recovery.delivery.rig import Rig
from tests.recovery.delivery.shapes import SHAPES

from towpath.crash import CrashPoint as P
from towpath.flow.strategy import Strategy

ALL = [*DRIVER, *DECIDING, P.WENT_AHEAD, P.REFUSING_SINKS_DONE, *LOG]
CASES = [
    case
    for shape in SHAPES.values()
    for strategy in Strategy
    for point in ALL
    if (case := Case(shape, strategy, "topic", point)).why_not() is None
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_recovers(case: Case, make_rig: Callable[[Case], Rig]) -> None:
    rig = make_rig(case)
    assert rig.run() == []
    assert all(rig.fired), "nobody came by there"
