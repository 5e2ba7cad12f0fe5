"""Real signals on live workers: asked to stop, stopped and continued, killed at moments nobody chose."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.recovery.acts import INBOX
from tests.recovery.scenario import fill
from tests.recovery.stage import Stage
from tests.support.leases import LONG_LEASE_S
from tests.support.pausing import pause_without_a_lock

from towpath.core.events import EventKind
from towpath.db.processes import EXIT_CODE_DEAD
from towpath.queue import MessageState
from towpath.testing.clock import wait_until
from towpath.testing.queue_ledger import problems, verify_schema

# Who freezes while it writes to SQLite stops all writers until it thaws: it is frozen where it does not write.
RARE_CARE = {"caretaker_s": 60}
EACH = 8  # messages of each kind; a commit takes a while on a slow disk
LEASE_S = 1.2  # others wait for its end where one is frozen

pytestmark = pytest.mark.realtime
ends_soon = pytest.mark.parametrize("lease_s", [LEASE_S])


@pytest.fixture
def lease_s() -> float:
    return LONG_LEASE_S


@pytest.fixture
def stage(database_settings: dict[str, Any], tmp_path: Path, lease_s: float) -> Iterator[Stage]:
    with Stage(database_settings, tmp_path, lease_s) as made:
        yield made


def assert_accounted(stage: Stage) -> None:
    ledger = stage.ledger()
    assert problems(ledger, stage.sent, stage.handled, stage.killed) == []
    verify_schema(stage.runtime.database)


@pytest.mark.parametrize("threads", [0, 4])
def test_sigterm_ends_what_was_begun_and_keeps_nothing(stage: Stage, threads: int) -> None:
    """An orderly stop leaves no claim behind, so nobody has to wait for a lease and nobody is called dead."""
    fill(stage, "double", True, 30)
    worker = stage.start("work", threads=threads, pause_s=1.0)  # it has work for seconds: the signal comes in time
    stage.wait_for("handled", 2)
    stage.stop(worker)
    ledger = stage.ledger()
    assert {message.state for message in ledger.asked} == {MessageState.NEW, MessageState.OK}
    done = {message.id for message in ledger.asked if message.state is MessageState.OK}
    assert done == set(stage.handled)
    assert [process.state for process in ledger.processes] == ["stopped"]
    stage.run("recover", threads=threads)
    assert_accounted(stage)
    assert set(stage.handled.values()) == {1}
    assert not stage.ledger().of_kind(EventKind.CLAIM_FREED)


@ends_soon
def test_stopped_for_longer_than_a_lease(stage: Stage, lease_s: float) -> None:
    """A frozen worker is dead for the others: they redo its message, and when it thaws it leaves with its own code."""
    fill(stage, "double", True, 1)
    gate = stage.home / "gate"
    frozen = stage.start("finish_late", queue=RARE_CARE, gate=str(gate))
    [handled] = stage.wait_for("handled")
    freeze(stage, frozen)
    stage.run("recover")
    assert stage.handled == {handled["id"]: 2}
    gate.touch()
    frozen.signal(signal.SIGCONT)
    assert frozen.wait() == EXIT_CODE_DEAD
    assert [entry["ids"] for entry in stage.journal("refused")] == [[handled["id"]]]
    assert stage.journal("finished late") == []
    assert_accounted(stage)
    [request] = stage.ledger().asked
    assert request.state is MessageState.OK
    assert [answer.payload for answer in stage.ledger().answers] == [{"doubled": 0}]


@ends_soon
def test_thawed_worker_does_no_more_work(stage: Stage, lease_s: float) -> None:
    """The same with a worker as people run it: whatever it held when it froze is done once more, and only that."""
    fill(stage, "double", True, 20)
    # It is frozen in the pause: in the middle of a finish it would keep a row locked until it thaws (PostgreSQL).
    frozen = stage.start("work", threads=4, pause_s=2.0, queue=RARE_CARE)
    stage.wait_for("begun", 4)
    freeze(stage, frozen)
    stage.run("recover", threads=4)
    frozen.signal(signal.SIGCONT)
    assert frozen.wait() == EXIT_CODE_DEAD
    assert_accounted(stage)
    assert [message.state for message in stage.ledger().asked] == [MessageState.OK] * 20
    assert {process.pid for process in stage.ledger().dead} == {frozen.pid}


def test_sigkill_at_random_moments(stage: Stage) -> None:
    """Two workers, one of which is killed again and again wherever it happens to be."""
    threads = random.choice([0, 3])
    for function in ("double", "fail", "later"):
        fill(stage, function, True, EACH)
        fill(stage, function, False, EACH)
    steady = stage.start("work", threads=threads, pause_s=0.01)
    for _ in range(4):
        victim = stage.start("work", threads=threads, pause_s=0.005)
        stage.wait_for("started", 1 + len(stage.killed) + 1)
        seen = len(stage.journal("handled"))
        stage.wait_for("handled", min(6 * EACH, seen + random.randint(0, 25)))
        stage.kill(victim)
    stage.stop(steady)
    stage.run("recover", threads=threads)
    assert_accounted(stage)
    assert len(stage.ledger().asked) == 6 * EACH
    assert {process.pid for process in stage.ledger().dead} <= stage.killed


@ends_soon
@pytest.mark.parametrize("database_settings", ["postgres"], indirect=True)
def test_frozen_transaction_holds_up_nobody_else(stage: Stage, lease_s: float) -> None:
    """Rows that a frozen process has locked must wait; the claims of all other dead must not wait for them."""
    fill(stage, "double", True, 3)
    frozen = stage.start("stay_in_transaction", queue=RARE_CARE, name="a")  # the dead are buried in this order
    stage.wait_for("inside")
    killed = stage.start("hold", inboxes={INBOX: "again"}, count=2)
    stage.wait_for("holding")
    freeze(stage, frozen)
    stage.kill(killed)
    worker = stage.start("work")
    wait_until(lambda: len(stage.handled) == 2, 60, "the two messages of the killed process to be done")
    stage.kill(frozen)
    stage.stop(worker)
    stage.run("recover")
    assert_accounted(stage)


def freeze(stage: Stage, child: Any) -> None:
    """Stop a process and wait until its lease has run out, by the database's time."""
    pause_without_a_lock(child.pid, stage.runtime.database)
    stage.killed.add(child.pid)
    assert stage.runtime.queue.inbox(INBOX).eavesdrop(1), "it froze with nothing in its hands"
    until = stage.runtime.database.now() + int(LEASE_S * 1_000_000)
    wait_until(lambda: stage.runtime.database.now() > until, 30, "the end of its lease")
