"""A person begins anew while a batch is open of which no output has anything, and that dies in its middle."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from tests.recovery.delivery.points import TARGETS, Case
from tests.recovery.delivery.rig import Rig
from tests.recovery.delivery.shape import COUNT
from tests.recovery.delivery.shapes import MANY

from towpath.core.crash import CrashPoint as P
from towpath.flow.delivery.ids import Strategy
from towpath.flow.stage.states import StageCommandKind
from towpath.flow.stage.store import StageStore

MakeRig = Callable[[Case], Rig]
POINTS = (P.GENERATION_FENCED, P.GENERATION_BEGUN)


def begun_anew(rig: Rig) -> None:
    rig.send(0, COUNT)
    assert rig.attempt(P.BATCH_SNAPSHOT)
    runtime = rig.world.connect()
    with runtime.database.transaction() as tx:
        arguments = {"to": "earliest"}
        StageStore(runtime.database).ask(
            tx, rig.flow().name, rig.topics[0], StageCommandKind.RESET, "me", "trying", arguments
        )
    rig.world.runtimes.remove(runtime)
    runtime.close()
    assert rig.attempt(rig.case.point), "nobody came by there"
    rig.finish()
    assert rig.problems() == []


@pytest.mark.parametrize("case", [Case(MANY, Strategy.EXACTLY_ONCE, "topic", P.GENERATION_FENCED)], ids=str)
def test_begins_anew(case: Case, make_rig: MakeRig) -> None:
    begun_anew(make_rig(case))


@pytest.mark.part("recovery")
@pytest.mark.parametrize(
    "case", [Case(MANY, Strategy.EXACTLY_ONCE, target, point) for target, point in product(TARGETS, POINTS)], ids=str
)
def test_begins_anew_everywhere(case: Case, make_rig: MakeRig) -> None:
    begun_anew(make_rig(case))
