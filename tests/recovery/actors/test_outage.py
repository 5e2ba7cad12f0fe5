"""PostgreSQL goes away while the code of states runs, and comes back: the machine waits and goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.support.actors import Count, Counter, Do, Doer, Gate, Theatre
from tests.support.shared_servers import own_postgres

import towpath
from towpath.actors.instance import Phase
from towpath.errors import DatabaseError
from towpath.stack.postgres import PostgresServer, StopMode
from towpath.testing.clock import wait_until

pytestmark = pytest.mark.realtime

LEASE_S = 1.2
AWAY_S = 2 * LEASE_S
COUNTED = 20  # each a commit or two, and a slow disk takes a while for each


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with own_postgres() as running:
        yield running


@pytest.fixture
def theatre(server: PostgresServer) -> Iterator[Theatre]:
    Doer.actions.clear()
    Doer.cleaned.clear()
    process = {"lease_s": LEASE_S, "heartbeat_s": LEASE_S / 4}
    with towpath.connect(database={"url": server.url}, process=process, queue={"poll_s": 0.2}) as runtime:
        made = Theatre(runtime)
        made.host.start()
        yield made
        made.host.stop()


@pytest.mark.parametrize("mode", [pytest.param("fast", marks=pytest.mark.part("kills")), "immediate"])
def test_what_ran_meanwhile_counts(theatre: Theatre, server: PostgresServer, mode: StopMode) -> None:
    """Its state says nothing of a repetition: were it interrupted, the run would have failed."""
    gate = Gate()
    Doer.actions["wait"] = gate
    run = theatre.actors.start(Doer, Do("wait"), wants_answer=True)
    assert gate.begun.wait(30)
    theatre.actors.start(Counter, Count(COUNTED), wants_answer=True)  # in the middle of something as well
    server.stop(mode)
    gate.go_on.set()
    back_at = time.monotonic() + AWAY_S
    wait_until(lambda: time.monotonic() > back_at, 2 * AWAY_S, "the end of the outage")
    server.start()
    assert theatre.actors.outbox().wait(run, timeout_s=60).payload == "late"
    wait_until(lambda: has_ended(theatre), timeout_s=60)
    assert theatre.history("doer") == [("Do", "OK"), ("Do", "OK"), ("End", "OK")]
    counted = theatre.actors.history("counter", limit=1000)
    assert [each.state for each in counted] == ["OK"] * (COUNTED + 3)
    assert [each.payload["n"] for each in reversed(counted[1:])] == [0, *range(COUNTED + 1)]
    assert {each.attempts for each in counted[:-1]} == {1}


def has_ended(theatre: Theatre) -> bool:
    try:
        return theatre.actors.instance("counter").phase is Phase.ENDED
    except DatabaseError:
        return False  # the connection of this thread broke, too
