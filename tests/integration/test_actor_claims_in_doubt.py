"""The connection breaks while a claim is committed: what was claimed is run, once, whether it was committed or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.support.actors import Count, Counter, Theatre

from towpath.actors.engine.run import ClaimedInstance, Claimer
from towpath.actors.instance import Phase
from towpath.db import Transaction
from towpath.errors import CommitUnknown
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

RUNS = 60  # more than a host runs at once: the next are claimed with the commit of those before
# So few that each place is filled in the commit that frees it: with more of them a host waits until there is room for
# several, and one that is slow claims all the rest alone, between two commits.
WORKERS = 3
UPTO = 3
HISTORY = [("Count", "OK")] * (UPTO + 2) + [("End", "OK")]  # the start, and each number from 0


@pytest.fixture
def quiet_theatre(make_runtime: Callable[..., Runtime]) -> Iterator[Theatre]:
    """The host is not started yet."""
    made = Theatre(make_runtime(actors={"workers": WORKERS}))
    yield made
    made.host.stop()


def is_broken(tx: Transaction) -> None:
    raise CommitUnknown("the connection broke before the commit arrived")


def is_broken_after(tx: Transaction) -> None:
    def fail() -> None:
        raise CommitUnknown("the connection broke before the answer to the commit arrived")

    tx.after_commit(fail)


class Breaking:
    """Breaks the first claims that claim something, of each way: alone, and with the commit of states."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, break_it: Callable[[Transaction], None]) -> None:
        self._claim, self._claim_in = Claimer.claim, Claimer.claim_in
        self._break = break_it
        self._way = "with states"
        self.ways: list[str] = []
        monkeypatch.setattr(Claimer, "claim", lambda *given: self._alone(*given))
        monkeypatch.setattr(Claimer, "claim_in", lambda *given: self._breaking(*given))

    def _alone(self, claimer: Claimer, limit: int, disabled: frozenset[str]) -> list[ClaimedInstance]:
        self._way = "alone"
        try:
            return self._claim(claimer, limit, disabled)
        finally:
            self._way = "with states"

    def _breaking(
        self, claimer: Claimer, tx: Transaction, limit: int, disabled: frozenset[str]
    ) -> list[ClaimedInstance]:
        claimed = self._claim_in(claimer, tx, limit, disabled)
        if claimed and self._way not in self.ways:
            self.ways.append(self._way)
            self._break(tx)
        return claimed


def test_is_run_once_when_the_answer_was_lost(quiet_theatre: Theatre, monkeypatch: pytest.MonkeyPatch) -> None:
    breaking = Breaking(monkeypatch, is_broken_after)
    everything_ends(quiet_theatre)
    assert breaking.ways == ["alone", "with states"]


def test_is_run_once_when_the_commit_was_lost(quiet_theatre: Theatre, monkeypatch: pytest.MonkeyPatch) -> None:
    breaking = Breaking(monkeypatch, is_broken)
    everything_ends(quiet_theatre)
    assert breaking.ways == ["alone", "with states"]


def everything_ends(theatre: Theatre) -> None:
    names = [f"run-{number}" for number in range(RUNS)]
    for name in names:
        theatre.actors.start(Counter, Count(UPTO), instance=name)
    theatre.host.start()
    wait_until(
        lambda: {each.phase for each in theatre.actors.instances(actor="counter")} == {Phase.ENDED}, timeout_s=60
    )
    for name in names:
        assert theatre.history("counter", name) == HISTORY
        assert {message.attempts for message in theatre.messages("counter", name)} == {1}
