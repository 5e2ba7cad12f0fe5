"""The database goes away under a coordinator for longer than every lease: nobody who lives is restarted for that."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.shared_servers import own_postgres
from tests.support.supervised import WAIT_S, WORKER, Keeping, keeping, sections

import towpath
from towpath.errors import DatabaseUnavailable
from towpath.runtime import Runtime
from towpath.stack.postgres import PostgresServer
from towpath.supervision.duties.model import DeathKind, DutyState
from towpath.testing.clock import wait_until

pytestmark = pytest.mark.realtime

LIVING = ("one", "two")


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with own_postgres() as running:
        yield running


@pytest.fixture
def kept(server: PostgresServer, tmp_path: Path) -> Iterator[Keeping]:
    given = sections(tmp_path, silent_s=5.0)  # all come back at once, on busy cores
    given["process"] = {"heartbeat_s": 0.3, "lease_s": 5.0}
    with towpath.connect(database={"url": server.url}, **given) as runtime, keeping(runtime) as made:
        yield made


@pytest.mark.part("kills")
@pytest.mark.parametrize("away_s", [8.0, 60.0])
def test_who_lives_is_left_alone_and_who_died_meanwhile_comes_back(
    kept: Keeping, server: PostgresServer, away_s: float
) -> None:
    for name in (*LIVING, "dies"):
        kept.want(name, WORKER)
    for name in (*LIVING, "dies"):
        kept.wait_for(name, DutyState.READY, 1)
    before = {name: kept.pid(name) for name in LIVING}
    dies = kept.pid("dies")
    server.stop("fast")
    back_at = time.monotonic() + away_s
    os.kill(dies, signal.SIGKILL)
    wait_until(lambda: time.monotonic() > back_at, 2 * away_s, "the end of the outage")
    server.start()

    wait_until(lambda: _launch(kept.runtime, "dies") == 2, WAIT_S, "another in place of who died")
    kept.wait_for("dies", DutyState.READY, 2)
    [death] = kept.deaths("dies")
    # Whichever is seen first after the outage: that it has ended, or that it is silent.
    assert death.how in (DeathKind.SIGNAL, DeathKind.SILENCE)
    assert death.exit_signal == signal.SIGKILL
    # Whoever was to be taken for dead for its silence would be by now.
    calm_until = time.monotonic() + 3 * kept.runtime.settings.supervision.silent_s
    wait_until(lambda: time.monotonic() > calm_until, WAIT_S, "the time in which others could be taken for dead")
    for name in LIVING:
        assert (kept.pid(name), kept.duty(name).launch, kept.deaths(name)) == (before[name], 1, [])

    kept.signal("one", signal.SIGKILL)
    kept.wait_for("one", DutyState.READY, 2)


def _launch(runtime: Runtime, name: str) -> int:
    """Zero while the connections of this process are those of before the outage."""
    try:
        return runtime.duties.show(name).duty.launch
    except DatabaseUnavailable:
        return 0
