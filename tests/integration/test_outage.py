"""PostgreSQL is away for several leases under four live worker processes: nobody dies, no claim is freed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.shared_servers import own_postgres
from tests.support.tables import events, rows

from towpath.core.events import EventKind
from towpath.runtime import Runtime
from towpath.settings import Settings
from towpath.stack.postgres import PostgresServer
from towpath.testing.clock import wait_until

pytestmark = pytest.mark.realtime

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 4
PROGRAM = """
import json, sys, threading
import towpath
runtime = towpath.connect(**json.loads(sys.argv[1]))
worker = runtime.queue.asynchronous("work", workers=1)
told = threading.Event()

@worker.on("HOLD")
def hold(message):
    print("holding", flush=True)
    told.wait()
    return runtime.process().id

worker.start()
sys.stdin.readline()
told.set()
sys.stdin.readline()
worker.stop()
runtime.close()
"""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with own_postgres() as made:
        yield made


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.part("kills")
@pytest.mark.parametrize(
    ("lease_s", "away_s"),
    [
        pytest.param(4.0, 13.0, id="scaled-down"),
        pytest.param(10.0, 60.0, id="default-lease-60s", marks=pytest.mark.timeout(300)),
    ],
)
def test_no_claim_of_a_living_worker_is_freed(server: PostgresServer, lease_s: float, away_s: float) -> None:
    sections: dict[str, Any] = {
        "database": {"url": server.url},
        "process": {"lease_s": lease_s, "heartbeat_s": lease_s / 5},
        "queue": {"caretaker_s": lease_s / 10, "poll_s": lease_s / 5},
    }
    with ExitStack() as stack, Runtime(Settings(**sections)) as runtime:
        runtime.queue.inbox("work")
        outbox = runtime.queue.outbox("me")
        asked = outbox.send_many("work", "HOLD", range(WORKERS))
        running = []
        for _ in range(WORKERS):
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, json.dumps(sections)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            running.append(process)
        assert [line(process) for process in running] == ["holding\n"] * WORKERS
        before = [row for row in rows(runtime.database, "message") if row["id"] in asked]
        assert [row["state"] for row in before] == ["ACK"] * WORKERS
        # All have held their lease for long enough to declare others dead: the danger is real.
        started = time.monotonic()
        wait_until(lambda: time.monotonic() > started + 1.5 * lease_s, timeout_s=2 * lease_s + 5)
        server.stop("immediate")
        stopped = time.monotonic()
        wait_until(lambda: time.monotonic() > stopped + away_s, timeout_s=away_s + 5)
        server.start()
        back = time.monotonic()
        wait_until(lambda: time.monotonic() > back + 3 * lease_s, timeout_s=4 * lease_s + 5)
        assert [process.poll() for process in running] == [None] * WORKERS
        after = [row for row in wait_until(lambda: _rows(runtime)) if row["id"] in asked]
        assert after == before
        for process in running:
            tell(process)
        answers = [outbox.wait(one, 30).payload for one in asked]
        assert sorted(answers) == sorted(row["owner"] for row in before)
        assert len(set(answers)) == WORKERS
        assert events(runtime.database, EventKind.PROCESS_DIED, EventKind.CLAIM_FREED) == []
        for process in running:
            tell(process)
        assert [process.wait(30) for process in running] == [0] * WORKERS


def _rows(runtime: Runtime) -> list[dict[str, Any]]:
    """The first try may find the connection of the old server."""
    try:
        return rows(runtime.database, "message")
    except Exception:
        return []
