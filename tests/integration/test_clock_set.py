"""The database's clock is set while processes live: nobody who beats is declared dead for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.quiet import LEASE_S, Quiet, let_die, shift

from towpath.db.database import Transaction

Make = Callable[..., Quiet]


@pytest.fixture
def pair(make_quiet: Make) -> tuple[Quiet, Quiet]:
    """Two that live; the first has held its lease long enough to declare others dead."""
    one, other = make_quiet(), make_quiet()
    for _ in range(6):
        for quiet in (one, other):
            quiet.clock.advance(LEASE_S / 5)
            quiet.process.renew()
    assert one.process.may_declare_dead
    return one, other


def test_before_the_next_beat_of_either(pair: tuple[Quiet, Quiet]) -> None:
    one, other = pair
    shift(3600, one, other)
    assert one.process.mark_dead() == []
    other.process.renew()


def test_after_the_beat_of_one(pair: tuple[Quiet, Quiet]) -> None:
    one, other = pair
    shift(3600, one, other)
    one.process.renew()
    assert one.process.mark_dead() == []
    other.process.renew()


def test_the_beat_comes_between_the_decision_and_its_statement(
    pair: tuple[Quiet, Quiet], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that looks for the dead, and the heartbeat, are two threads of one process."""
    one, other = pair
    shift(3600, one, other)
    begin = one.database.beats.transaction

    @contextmanager
    def after_a_beat(*given: Any, **options: Any) -> Iterator[Transaction]:
        monkeypatch.undo()
        one.process.renew()
        with begin(*given, **options) as tx:
            yield tx

    monkeypatch.setattr(one.database.beats, "transaction", after_a_beat)
    assert one.process.mark_dead() == []
    other.process.renew()


def test_by_less_than_a_lease(pair: tuple[Quiet, Quiet]) -> None:
    one, other = pair
    shift(LEASE_S * 0.3, one, other)
    one.clock.advance(LEASE_S * 0.3)
    one.process.renew()
    shift(LEASE_S * 0.8, one, other)
    assert one.process.mark_dead() == []
    other.process.renew()


def test_one_that_does_not_beat_is_dead_all_the_same(pair: tuple[Quiet, Quiet]) -> None:
    one, other = pair
    let_die(other, one)
    assert one.process.mark_dead() == [other.process.id]
