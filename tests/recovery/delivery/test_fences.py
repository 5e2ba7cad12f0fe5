"""Who was replaced cannot write any more; without the fence the same checks find what it has written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.recovery.delivery.points import Case
from tests.recovery.delivery.rig import Rig
from tests.recovery.delivery.shapes import SINGLE
from tests.recovery.delivery.zombie import Zombie

from towpath.core.crash import CrashPoint as P
from towpath.db.tables.model import TableMarks
from towpath.errors import SinkError
from towpath.flow.delivery.ids import Strategy
from towpath.flow.sinks.topic import writer as topic_writer
from towpath.flow.topics import producer_of

MakeRig = Callable[[Case], Rig]


def replaced(make_rig: MakeRig, target: str) -> tuple[Rig, Zombie]:
    """A task that has opened its writer; its driver has died, and another has done all of the work."""
    rig = make_rig(Case(SINGLE, Strategy.EXACTLY_ONCE, target, P.BATCH_SNAPSHOT))
    rig.prepare()
    assert rig.attempt(rig.case.point)
    zombie = Zombie(rig)
    rig.finish()
    return rig, zombie


ON_SERVERS = [pytest.param(each, marks=pytest.mark.part("recovery")) for each in ("kafka", "postgres")]


@pytest.mark.parametrize("target", ["topic", "sqlite", *ON_SERVERS])
def test_late_task_is_fenced(target: str, make_rig: MakeRig) -> None:
    rig, zombie = replaced(make_rig, target)
    with pytest.raises(SinkError):
        zombie.wake()
    assert rig.problems() == []


@pytest.mark.part("recovery")
@pytest.mark.parametrize("target", ["topic", "kafka"])
def test_without_fence_a_late_task_writes_to_topics(
    target: str, make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a name of its own, so that to open one ends nobody else's."""
    name = producer_of
    monkeypatch.setattr(topic_writer, "producer_of", lambda *names: f"{name(*names)}.zombie")
    _is_found(*replaced(make_rig, target))


@pytest.mark.part("recovery")
@pytest.mark.parametrize("target", ["sqlite", "postgres"])
def test_without_fence_a_late_task_writes_to_tables(
    target: str, make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TableMarks, "_check_last", lambda *_: None)
    _is_found(*replaced(make_rig, target))


def _is_found(rig: Rig, zombie: Zombie) -> None:
    zombie.wake()
    problems = rig.problems()
    assert any("too often" in problem for problem in problems), problems
