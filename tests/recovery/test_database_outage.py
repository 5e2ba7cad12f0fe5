"""PostgreSQL goes away for longer than a lease under live workers, and comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.recovery.scenario import fill
from tests.recovery.stage import Stage
from tests.support.shared_servers import own_postgres

from towpath.core.events import EventKind
from towpath.errors import DatabaseUnavailable
from towpath.queue import MessageState
from towpath.stack.postgres import PostgresServer, StopMode
from towpath.testing.clock import wait_until
from towpath.testing.queue_ledger import problems

pytestmark = pytest.mark.realtime

LEASE_S = 5.0  # all connections are made anew at once, on busy cores
AWAY_S = 1.5 * LEASE_S
WORKERS = 4
MESSAGES = 30


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with own_postgres() as running:
        yield running


@pytest.fixture
def stage(server: PostgresServer, tmp_path: Path) -> Iterator[Stage]:
    with Stage({"url": server.url}, tmp_path, LEASE_S) as made:
        yield made


@pytest.mark.part("kills")
@pytest.mark.parametrize(("threads", "mode"), [(0, "fast"), (2, "immediate")])
def test_nobody_alive_loses_a_claim(stage: Stage, server: PostgresServer, threads: int, mode: StopMode) -> None:
    """Handlers that end while the database is away wait for it, and their work counts."""
    workers = [stage.start("work", threads=threads, pause_s=0.2) for _ in range(WORKERS)]
    stage.wait_for("started", WORKERS)
    fill(stage, "double", True, MESSAGES)
    stage.wait_for("handled", 5)
    server.stop(mode)
    back_at = time.monotonic() + AWAY_S
    wait_until(lambda: time.monotonic() > back_at, 2 * AWAY_S, "the end of the outage")
    server.start()
    wait_until(lambda: is_all_done(stage), 60, "all requests done")
    for worker in workers:
        stage.stop(worker)
    stage.run("recover")
    ledger = stage.ledger()
    assert problems(ledger, stage.sent, stage.handled, killed=()) == []
    assert len(ledger.asked) == MESSAGES
    assert set(stage.handled.values()) == {1}
    assert not ledger.of_kind(EventKind.CLAIM_FREED)
    assert not ledger.dead


def is_all_done(stage: Stage) -> bool:
    try:
        return all(message.state is MessageState.OK for message in stage.ledger().asked)
    except DatabaseUnavailable:
        return False  # the connection of this process broke too
