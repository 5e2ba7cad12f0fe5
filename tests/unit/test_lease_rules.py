"""The rules of a lease that need no database: when a process may claim, and when it may declare another dead."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.db.processes import Process
from towpath.errors import DatabaseUnavailable, ProcessDead
from towpath.settings import ProcessSettings
from towpath.testing.clock import SettableClock

SETTINGS = ProcessSettings(name="p", heartbeat_s=2.0, lease_s=10.0)


class RowThatAnswers:
    """Stands where the database is and answers a beat: alive, dead, or not at all."""

    dialect = "sqlite"
    wakeups = None

    def __init__(self) -> None:
        self.alive = True
        self.away = False

    @property
    def beats(self) -> RowThatAnswers:
        return self

    def single(self) -> Any:
        if self.away:
            raise DatabaseUnavailable("away")
        return nullcontext(self)

    def run(self, query: Any, params: Any) -> int:
        return 1

    def rows(self, query: Any, params: Any) -> list[tuple[int]]:
        return [(1,)] if self.alive else []


class Scene:
    def __init__(self) -> None:
        self.row = RowThatAnswers()
        self.clock = SettableClock()
        self.process = Process(cast(Any, self.row), SETTINGS, self.clock)

    def beat_for(self, seconds: float) -> None:
        """Beat every second."""
        for _ in range(int(seconds)):
            self.clock.advance(1)
            self.process.renew()


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.process.register()
    return made


def test_ids_are_new_at_each_start() -> None:
    assert len({Scene().process.id for _ in range(100)}) == 100
    assert Scene().process.id.startswith("p-")


def test_nothing_is_allowed_before_registering() -> None:
    process = Scene().process
    assert not process.is_leased
    assert not process.may_declare_dead
    with pytest.raises(ProcessDead):
        process.check_leased()


def test_a_lease_ends_by_the_local_clock(scene: Scene) -> None:
    scene.clock.advance(9.99)
    scene.process.check_leased()
    scene.clock.advance(0.01)
    assert not scene.process.is_leased
    with pytest.raises(ProcessDead):
        scene.process.check_leased()


def test_renewing_makes_it_last(scene: Scene) -> None:
    scene.beat_for(60)
    assert scene.process.is_leased


def test_a_newcomer_declares_nobody_dead_for_one_lease(scene: Scene) -> None:
    scene.beat_for(9)
    assert not scene.process.may_declare_dead
    scene.beat_for(1)
    assert scene.process.may_declare_dead


def test_who_could_not_renew_declares_nobody_dead_for_one_lease(scene: Scene) -> None:
    scene.beat_for(20)
    assert scene.process.may_declare_dead
    scene.row.away = True
    scene.clock.advance(11)
    with pytest.raises(DatabaseUnavailable):
        scene.process.renew()
    assert (scene.process.is_leased, scene.process.may_declare_dead) == (False, False)
    scene.row.away = False
    may = []
    for _ in range(11):
        scene.process.renew()
        may.append((scene.process.is_leased, scene.process.may_declare_dead))
        scene.clock.advance(1)
    assert may == [(True, False)] * 10 + [(True, True)]


def test_a_short_outage_inside_the_lease_costs_nothing(scene: Scene) -> None:
    scene.beat_for(20)
    scene.clock.advance(9)
    scene.process.renew()
    assert scene.process.may_declare_dead


def test_who_was_declared_dead_is_told_and_stays_so(scene: Scene) -> None:
    scene.beat_for(20)
    scene.row.alive = False
    for _ in range(2):
        with pytest.raises(ProcessDead, match="declared"):
            scene.process.renew()
        assert not scene.process.is_leased
        assert not scene.process.may_declare_dead


def test_after_stopping_nothing_is_claimed(scene: Scene) -> None:
    scene.process.stop()
    with pytest.raises(ProcessDead):
        scene.process.check_leased()


def test_ticks_never_repeat(scene: Scene) -> None:
    assert [scene.process.next_tick() for _ in range(3)] == [1, 2, 3]


@given(st.lists(st.tuples(st.floats(0.1, 15), st.booleans()), max_size=40))
def test_only_an_unbroken_lease_allows_declaring(steps: list[tuple[float, bool]]) -> None:
    """Whatever beats come or fail: who may declare has had no gap of a lease during the last lease."""
    scene = Scene()
    scene.process.register()
    renewed = [scene.clock.monotonic()]
    for pause_s, works in steps:
        scene.clock.advance(pause_s)
        if works:
            scene.process.renew()
            renewed.append(scene.clock.monotonic())
        now = scene.clock.monotonic()
        gaps = [(a, b) for a, b in zip(renewed, [*renewed[1:], now], strict=True) if b - a > SETTINGS.lease_s]
        unbroken_since = max((b for _, b in gaps), default=renewed[0])
        if scene.process.may_declare_dead:
            assert now - renewed[-1] < SETTINGS.lease_s
            assert now - unbroken_since >= SETTINGS.lease_s - 1e-6
