"""The driver is a process of its own and dies by SIGKILL: every pair of point, strategy, sink and shape."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.recovery.delivery.act import told
from tests.recovery.delivery.pairs import pairwise
from tests.recovery.delivery.points import Case, product_of
from tests.recovery.delivery.rig import Rig
from tests.recovery.delivery.shapes import DEDUPE, MANY, SINGLE

from towpath.core.crash import CrashPoint as P
from towpath.flow.delivery.ids import Strategy
from towpath.testing.processes import ChildProcess

ROOT = Path(__file__).parents[3]
MakeRig = Callable[[Case], Rig]
PAIRS = pairwise(product_of())
FAST = [Case(DEDUPE, Strategy.EXACTLY_ONCE, "topic", P.BATCH_COMMITTED)]
ON_SERVERS = [
    Case(SINGLE, Strategy.EXACTLY_ONCE, "kafka", P.LOG_TRANSACTION_BEFORE_COMMIT),
    Case(MANY, Strategy.EXACTLY_ONCE, "postgres", P.TABLE_BEFORE_COMMIT),
]


def killed(rig: Rig) -> list[str]:
    """The first attempt in a process that is killed; the rest as in the warm tests."""
    case, world = rig.case, rig.world
    rig.prepare()
    order = {
        "settings": world.settings(),
        "shape": case.shape.name,
        "strategy": case.strategy,
        "target": told(rig.target),
        "other": told(rig.other),
    }
    log = world.home / "child.log"
    crash_at = case.crash_at
    for is_last in (case.shape.stages == 1, True):  # the second stage may have found nothing to do as yet
        with ChildProcess("tests.recovery.delivery.act", order, log=log, crash_at=crash_at, cwd=ROOT) as child:
            if is_last:
                child.wait_killed(120)
                break
            if child.wait(120) == -signal.SIGKILL:
                break
        crash_at = case.point
    rig.finish(when_free=True)
    return rig.problems()


@pytest.mark.parametrize("case", FAST, ids=str)
def test_killed(case: Case, make_rig: MakeRig) -> None:
    assert killed(make_rig(case)) == []


@pytest.mark.part("drivers")
@pytest.mark.parametrize("case", dict.fromkeys([*ON_SERVERS, *PAIRS]), ids=str)
def test_killed_everywhere(case: Case, make_rig: MakeRig) -> None:
    assert killed(make_rig(case)) == []
