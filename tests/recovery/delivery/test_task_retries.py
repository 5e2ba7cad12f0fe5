"""A worker dies right after its sink has committed, the driver lives, and Spark tries the task again in the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import pytest
from tests.recovery.delivery.points import TARGETS, Case
from tests.recovery.delivery.retrying import Retrying
from tests.recovery.delivery.rig import Rig
from tests.recovery.delivery.shapes import MANY, SHAPES

from towpath.core.crash import CrashPoint as P
from towpath.flow.delivery.ids import Strategy

MakeRig = Callable[[Case], Rig]
COMMITTED = {
    "sqlite": P.TABLE_AFTER_COMMIT,
    "postgres": P.TABLE_AFTER_COMMIT,
    "files": P.FILES_SYNCED,
    "index": P.INDEX_DONE,
}


def after_commit(strategy: Strategy, target: str) -> P:
    """Where a sink has all of a unit, and nobody has been told."""
    in_log = P.LOG_TRANSACTION_AFTER_COMMIT if strategy.has_marks else P.APPEND_AFTER_COMMIT
    return COMMITTED.get(target, in_log)


ALL = [
    Case(shape, strategy, target, after_commit(strategy, target))
    for shape, strategy, target in product(SHAPES.values(), Strategy, TARGETS)
]
FAST = [Case(MANY, Strategy.EXACTLY_ONCE, "topic", P.LOG_TRANSACTION_AFTER_COMMIT)]


@pytest.fixture(scope="session")
def retrying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retrying]:
    process = Retrying(tmp_path_factory.mktemp("retrying") / "process.log")
    yield process
    process.close()


@pytest.mark.parametrize("case", FAST, ids=str)
def test_task_is_tried_again(case: Case, make_rig: MakeRig, retrying: Retrying) -> None:
    rig = make_rig(case)
    rig.prepare()
    assert retrying.run(rig), "nobody came by there"
    if not case.strategy.may_repeat:
        rig.finish()
    assert rig.problems() == []
    if case.strategy.may_repeat:
        # Else not the task was tried again but the batch, as after other crashes.
        assert {batch.attempts for batch in rig.world.batches(rig.flow())} == {1}


@pytest.mark.part("drivers")
@pytest.mark.parametrize("case", ALL, ids=str)
def test_task_is_tried_again_everywhere(case: Case, make_rig: MakeRig, retrying: Retrying) -> None:
    test_task_is_tried_again(case, make_rig, retrying)
