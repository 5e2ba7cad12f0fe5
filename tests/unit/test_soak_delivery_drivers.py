"""The drivers of the chaos run: replaced, stopped and woken, and never left behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from soak.delivery import tree
from soak.delivery.drivers import COUNT, Drivers

from towpath.testing.clock import wait_until
from towpath.testing.processes import ChildProcess

ROOT = Path(__file__).parents[2]
WAIT_S = 60


@pytest.fixture
def drivers(tmp_path: Path) -> Iterator[Drivers]:
    """Programs that stand where drivers would; each calls itself active."""
    order = {"active": str(tmp_path)}
    log = tmp_path / "log"
    made = Drivers(lambda: ChildProcess("tests.support.standing", order, log=log, cwd=ROOT), tmp_path)
    made.refill()
    wait_until(lambda: all((tmp_path / str(child.pid)).exists() for child in made.children), WAIT_S, "all stand")
    yield made
    made.close()


def test_who_is_killed_is_replaced(drivers: Drivers) -> None:
    first = drivers.active
    assert first is not None
    drivers.kill()
    assert first.exit_code == -signal.SIGKILL
    drivers.refill()
    assert len(drivers.children) == COUNT
    assert first not in drivers.children
    assert not drivers.ended  # by itself
    assert drivers.left  # what it had started is known
    assert drivers.outliving() == []


def test_a_sleeper_is_none_of_them_until_it_is_let_go(drivers: Drivers) -> None:
    sleeper = drivers.put_to_sleep(whole=True)
    assert sleeper is not None
    sleeper.wait_stopped(WAIT_S)
    assert len(drivers.stopped) == 2  # with what it has started
    assert drivers.active is not sleeper
    drivers.wake()
    assert not drivers.let_go(sleeper)  # it has not noticed anything
    assert not sleeper.is_running


def test_one_that_ends_by_itself_is_told_with_its_code(drivers: Drivers) -> None:
    first = drivers.active
    assert first is not None
    first.signal(signal.SIGTERM)
    first.wait_done(WAIT_S)
    drivers.refill()
    assert drivers.ended == {0: 1}


def test_at_the_end_nothing_is_left_also_of_those_that_are_stopped(drivers: Drivers) -> None:
    drivers.put_to_sleep(whole=True)
    everyone = [each for child in (*drivers.children, *drivers.sleepers) for each in tree.descendants(child.pid)]
    drivers.close()
    assert len(everyone) == COUNT
    wait_until(lambda: not any(map(tree.is_alive, everyone)), WAIT_S, "the end of all")
