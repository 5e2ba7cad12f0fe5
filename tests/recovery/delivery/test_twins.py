"""Broken twins: without what keeps a promise, the same checks must find it broken. So the other tests can fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.recovery.delivery.forgetful import ForgetfulKeeper
from tests.recovery.delivery.points import Case
from tests.recovery.delivery.rig import Rig
from tests.recovery.delivery.shapes import DEDUPE, FORK, SINGLE

from towpath.core.crash import CrashPoint as P
from towpath.flow.delivery.ids import Strategy
from towpath.flow.run.batch import BatchRun
from towpath.flow.run.checkpoint import Checkpoint
from towpath.flow.run.context import StageContext
from towpath.flow.stateful import operators
from towpath.flow.worker.context import BatchContext

MakeRig = Callable[[Case], Rig]


def test_without_marks_records_come_twice(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    place = BatchRun._place

    def without_marks(run: BatchRun) -> BatchContext:
        return replace(place(run), strategy=Strategy.AT_LEAST_ONCE)

    monkeypatch.setattr(BatchRun, "_place", without_marks)
    rig = make_rig(Case(SINGLE, Strategy.EXACTLY_ONCE, "topic", P.BATCH_LOADED))
    problems = rig.run()
    assert any("too often" in problem for problem in problems), problems


@pytest.mark.part("recovery")
def test_without_a_stored_outcome_errors_come_twice(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is the mark of the errors looked for: each alone would be enough."""
    monkeypatch.setattr(Checkpoint, "keep_outcome", lambda checkpoint, hash, attempt: attempt)
    monkeypatch.setattr(Strategy, "has_marks", property(lambda strategy: False))
    rig = make_rig(Case(SINGLE, Strategy.EXACTLY_ONCE, "files", P.ERRORS_SENT))
    problems = rig.run()
    assert any("errors" in problem and "too often" in problem for problem in problems), problems


@pytest.mark.part("recovery")
def test_without_stored_decisions_records_land_in_two_outputs_or_in_none(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By chance it may come out right: of 9 records each has one chance in two."""
    monkeypatch.setattr(StageContext, "decides", property(lambda ground: False))
    found = []
    for _ in range(3):
        found += make_rig(Case(FORK, Strategy.EXACTLY_ONCE, "sqlite", P.BATCH_LOADED)).run()
    assert any("too often" in problem or "lost" in problem for problem in found), found


@pytest.mark.part("recovery")
def test_without_state_duplicates_pass(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second batch has all records of the first once more."""
    monkeypatch.setattr(operators, "DedupeKeeper", ForgetfulKeeper)
    rig = make_rig(Case(DEDUPE, Strategy.EXACTLY_ONCE, "topic", P.BATCH_LOADED))
    assert rig.case.batch == 1
    problems = rig.run()
    assert any("main" in problem and "too often" in problem for problem in problems), problems
