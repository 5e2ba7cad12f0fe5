"""Real processes: rows that say who lives, and a process that was declared dead leaves at once."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.leases import LONG_LEASE
from tests.support.pausing import pause_without_a_lock
from tests.support.programs import ROOT
from tests.support.quiet import Quiet, outlive
from tests.support.tables import events, rows, states

from towpath.core.clock import MICROS
from towpath.core.events import EventKind
from towpath.db.processes import EXIT_CODE_DEAD, NEIGHBOURS, Identity, ProcessStore
from towpath.errors import DatabaseError, TowpathError
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

pytestmark = pytest.mark.processes

HOLDER = """
import json, sys, threading
import towpath
from towpath.testing.clock import wait_for_handler
database, lease = map(json.loads, sys.argv[1:])
runtime = towpath.connect(database=database, process={"name": "holder", **lease})
inbox = runtime.queue.inbox("work")
print(json.dumps([m.id for m in inbox.claim(10)]), flush=True)
wait_for_handler(threading.Event())
"""


@pytest.fixture
def holder(make_runtime: Callable[..., Runtime], database_settings: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """A process that has claimed what waits in `work` and does nothing more."""
    runtime = make_runtime()
    runtime.queue.inbox("work")
    runtime.queue.outbox("me").notice_many("work", "DO", range(3))
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, json.dumps(database_settings), json.dumps(LONG_LEASE)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        assert len(json.loads(process.stdout.readline())) == 3
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_killed_process_is_declared_dead_and_its_claims_are_freed(
    make_runtime: Callable[..., Runtime], holder: subprocess.Popen[str]
) -> None:
    """At once: nobody waits for its lease. Its parent, which is this test, has not even looked."""
    survivor = make_runtime()
    survivor.process()
    holder.send_signal(signal.SIGKILL)
    wait_until(lambda: states(survivor.database) == ["NEW"] * 3, timeout_s=60, what="the freed claims")
    [death] = wait_until(lambda: events(survivor.database, EventKind.PROCESS_DIED))
    data = json.loads(death["data"])
    assert (data["name"], data["pid"], data["host"]) == ("holder", holder.pid, socket.gethostname())
    assert "lease" not in death["why"]


@pytest.mark.realtime
def test_a_paused_process_that_was_declared_dead_leaves_when_it_wakes(
    make_quiet: Callable[..., Quiet], holder: subprocess.Popen[str]
) -> None:
    survivor = make_quiet(process=LONG_LEASE)
    pause_without_a_lock(holder.pid, survivor.database)
    try:
        outlive(survivor)
        survivor.caretaker.free_the_dead()
        assert states(survivor.database) == ["NEW"] * 3
    finally:
        holder.send_signal(signal.SIGCONT)
    assert holder.wait(60) == EXIT_CODE_DEAD


def test_an_interrupted_process_stops_in_order_when_it_closes(
    make_runtime: Callable[..., Runtime], database_settings: dict[str, Any]
) -> None:
    watcher = make_runtime()
    first = make_runtime(process={"name": "first"})
    process = first.process()
    [row] = rows(watcher.database, "process")
    assert (row["id"], row["name"], row["host"], row["pid"], row["state"]) == (
        process.id,
        "first",
        socket.gethostname(),
        os.getpid(),
        "alive",
    )
    assert row["started_at"] <= row["beat_at"] < row["lease_until"]
    first.close()
    [row] = rows(watcher.database, "process")
    assert row["state"] == "stopped"
    told = [(event["kind"], event["subject"]) for event in rows(watcher.database, "event")]
    assert told == [("process_started", process.id), ("process_stopped", process.id)]


def test_only_who_claims_has_a_row(runtime: Runtime) -> None:
    runtime.queue.inbox("work")
    runtime.queue.outbox("me").notice("work", "DO")
    runtime.queue.browser().page()
    assert rows(runtime.database, "process") == []
    runtime.queue.inbox("work").claim()
    assert len(rows(runtime.database, "process")) == 1


def test_beats_move_the_lease(runtime: Runtime) -> None:
    runtime.process()
    [first] = rows(runtime.database, "process")
    wait_until(lambda: rows(runtime.database, "process")[0]["lease_until"] > first["lease_until"])


def test_a_closed_runtime_says_so_and_may_be_closed_again(make_runtime: Callable[..., Runtime]) -> None:
    runtime = make_runtime()
    inbox = runtime.queue.inbox("work")
    runtime.process()
    runtime.close()
    runtime.close()
    with pytest.raises(TowpathError, match="closed"):
        inbox.claim()
    with pytest.raises(DatabaseError, match="closed"):
        runtime.queue.outbox("me").notice("work", "DO")


def test_closing_leaves_no_thread_behind(make_runtime: Callable[..., Runtime]) -> None:
    before = set(threading.enumerate())
    runtime = make_runtime()
    worker = runtime.queue.asynchronous("work")
    worker.start()
    runtime.queue.outbox("me").notice("work", "DO")
    worker.stop()
    runtime.close()
    wait_until(lambda: set(threading.enumerate()) <= before, what="the end of all its threads")


def test_everybody_has_enough_neighbours_who_look_after_it(
    make_runtime: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a ring: hundreds on one machine do not all look after all."""
    monkeypatch.setattr("towpath.core.os_processes.is_gone", lambda *_: True)
    database = make_runtime().database
    store, ids = ProcessStore(database), [f"p-{number:03}" for number in range(40)]
    with database.beats.transaction() as tx:
        for each in ids:
            store.register(tx, each, "p", MICROS, Identity())
    looked_after: Counter[str] = Counter()
    for each in ids:
        with database.beats.read() as tx:
            looked_after.update(store.gone(tx, each))
    assert looked_after == Counter(dict.fromkeys(ids, NEIGHBOURS))
