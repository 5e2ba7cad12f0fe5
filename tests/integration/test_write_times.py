"""On SQLite a write transaction holds up every other writer: at the largest batches it stays under 250 ms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.quiet import LEASE_S, Quiet, shift
from tests.support.writes import MOST_S, ROUNDS, Stopwatch

from towpath.queue.inbox import MOST_PER_CLAIM
from towpath.settings import Settings


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Quiet]:
    """With the default durability, on SQLite."""
    made = Quiet.open(
        Settings(
            database={"url": f"sqlite:///{tmp_path}/towpath.db"},
            process={"heartbeat_s": LEASE_S / 5, "lease_s": LEASE_S},
            queue={"retention": {"ok_s": 60, "event_s": 60}},
        )
    )
    yield made
    made.runtime.close()


@pytest.fixture
def stopwatch(quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    quiet.queue.inbox("work")
    return Stopwatch(monkeypatch)


def fill(quiet: Quiet, count: int = MOST_PER_CLAIM, kind: str = "notice_many") -> None:
    getattr(quiet.queue.outbox("me"), kind)("work", "DO", ({"number": n, "text": "x" * 100} for n in range(count)))


def test_sending_many(quiet: Quiet, stopwatch: Stopwatch) -> None:
    assert 0 < stopwatch.best_of(lambda: fill(quiet)) < MOST_S


def test_sending_many_large_ones(quiet: Quiet, stopwatch: Stopwatch) -> None:
    def send() -> None:
        quiet.queue.outbox("me").notice_many("work", "DO", ["x" * 1_000_000] * 12)

    assert 0 < stopwatch.best_of(send) < MOST_S


@pytest.mark.parametrize("kind", ["notice_many", "send_many"])
def test_claiming_and_finishing_the_largest_batch(quiet: Quiet, stopwatch: Stopwatch, kind: str) -> None:
    inbox = quiet.queue.inbox("work")
    claims: list[float] = []
    finishes: list[float] = []
    for _ in range(ROUNDS):
        fill(quiet, kind=kind)
        stopwatch.longest_s = 0.0
        messages = inbox.claim(MOST_PER_CLAIM)
        claims.append(stopwatch.longest_s)
        assert len(messages) == MOST_PER_CLAIM
        stopwatch.longest_s = 0.0
        inbox.finish(messages, {"done": True})
        finishes.append(stopwatch.longest_s)
    assert 0 < min(claims) < MOST_S
    assert 0 < min(finishes) < MOST_S


def test_releasing_and_failing_the_largest_batch(quiet: Quiet, stopwatch: Stopwatch) -> None:
    inbox = quiet.queue.inbox("work")
    fill(quiet)
    assert 0 < stopwatch.best_of(lambda: inbox.release(inbox.claim(MOST_PER_CLAIM))) < MOST_S

    def fail() -> None:
        fill(quiet)
        inbox.fail(inbox.claim(MOST_PER_CLAIM), "broke")

    assert 0 < stopwatch.best_of(fail) < MOST_S


def test_reaping(quiet: Quiet, stopwatch: Stopwatch) -> None:
    def reap() -> None:
        outbox = quiet.queue.outbox("me")
        with quiet.database.transaction() as tx:
            for number in range(2_000):
                outbox.notice("work", "DO", number, ttl_s=1, tx=tx)
        shift(2, quiet)
        stopwatch.longest_s = 0.0
        assert quiet.caretaker.reap() == 2_000

    assert 0 < stopwatch.best_of(reap) < MOST_S


def test_freeing_and_cleaning(quiet: Quiet, stopwatch: Stopwatch) -> None:
    inbox = quiet.queue.inbox("work", "again", 100)
    fill(quiet)
    quiet.hold_lease()
    freeing = []
    for turn in range(ROUNDS):
        messages = inbox.claim(MOST_PER_CLAIM)
        quiet.database.connection().execute("update message set owner = ?", (f"dead-{turn}",))  # type: ignore[attr-defined]
        stopwatch.longest_s = 0.0
        assert quiet.caretaker.free_the_dead() == len(messages)
        freeing.append(stopwatch.longest_s)
    assert 0 < min(freeing) < MOST_S
    rounds = iter(range(ROUNDS))

    def clean() -> None:
        turn = next(rounds)
        if turn:  # another backlog: what was cleaned is gone
            fill(quiet)
            inbox.claim(MOST_PER_CLAIM)
            quiet.database.connection().execute("update message set owner = 'dead' where state = 'ACK'")  # type: ignore[attr-defined]
            assert quiet.caretaker.free_the_dead() == MOST_PER_CLAIM
        inbox.finish(inbox.claim(MOST_PER_CLAIM))
        shift(100, quiet)
        stopwatch.longest_s = 0.0
        done = quiet.queue.janitor().clean()
        assert done["ok"] == MOST_PER_CLAIM - (not turn)  # the newest is kept, until there is a newer one
        assert done["events"] >= MOST_PER_CLAIM

    assert 0 < stopwatch.best_of(clean) < MOST_S
