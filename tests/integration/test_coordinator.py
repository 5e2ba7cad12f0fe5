"""Real processes that die in every way, and what becomes of them and of what they held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.supervised import (
    BROKEN,
    DEAF,
    HOST,
    LONG_SILENT_S,
    ROOT,
    WAIT_S,
    WORKER,
    Keeping,
    keeping,
    sections,
)
from tests.support.tables import by_hand, events, rows, states

from towpath.core.os_processes import born
from towpath.runtime import Runtime
from towpath.supervision.duties.launch import EXIT_CODE_REPLACED
from towpath.supervision.duties.model import DeathKind, Duty, DutySpec, DutyState, NewDuty
from towpath.supervision.launchers.launcher import LAUNCH_VARIABLE
from towpath.supervision.launchers.process_tree import process_tree
from towpath.supervision.launchers.subprocess import SubprocessLauncher
from towpath.supervision.up import Up
from towpath.testing.clock import wait_until

# A frozen process is silent for the coordinator. One that stands still itself counts silence anew; then its watch over
# frozen processes is faster.
ENDED_BY_FORCE = (DeathKind.SILENCE, DeathKind.SIGNAL)


@pytest.fixture
def silent_s() -> float:
    """Where nobody is silent on purpose nobody may be taken for it who only waits for a processor."""
    return LONG_SILENT_S


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime], tmp_path: Path, silent_s: float) -> Runtime:
    return make_runtime(**sections(tmp_path, silent_s=silent_s))


@pytest.fixture
def kept(runtime: Runtime) -> Iterator[Keeping]:
    with keeping(runtime) as made:
        yield made


def send_work(runtime: Runtime, count: int) -> None:
    runtime.queue.inbox("work", max_attempts=100)
    runtime.queue.outbox("me").notice_many("work", "DO", range(count))


@pytest.mark.realtime
@pytest.mark.parametrize("silent_s", [10.0])
def test_what_dies_is_started_again_and_what_it_held_is_freed(kept: Keeping, silent_s: float) -> None:
    """Once for each of: killed, and silent. Each death is a record of who, how, when, what was freed, when back."""
    runtime = kept.runtime
    send_work(runtime, 3)
    kept.want("worker", WORKER)
    first = kept.wait_for("worker", DutyState.READY, 1)
    assert first.process_id is not None
    wait_until(lambda: states(runtime.database) == ["ACK"] * 3)

    pid = kept.signal("worker", signal.SIGKILL)
    second = kept.wait_for("worker", DutyState.READY, 2)
    assert second.process_id not in (None, first.process_id)
    wait_until(lambda: kept.deaths("worker")[0].freed is not None, WAIT_S, "the record of what was freed")
    [death] = kept.deaths("worker")
    assert (death.how, death.exit_signal, death.exit_code) == (DeathKind.SIGNAL, signal.SIGKILL, None)
    assert (death.process_id, death.pid, death.host) == (first.process_id, pid, HOST)
    assert death.freed == {"messages": 3, "instances": 0, "stages": 0, "lanes": 0}
    assert death.last_beat_at is not None
    assert death.back_at is not None
    assert death.last_beat_at <= death.noticed_at <= death.back_at

    stopped = kept.pause("worker")
    third = kept.wait_for("worker", DutyState.READY, 3)
    assert third.early_deaths == 0
    assert born(stopped) == "", "a silent one is ended by force before another is started"
    wait_until(lambda: kept.deaths("worker")[1].freed is not None, WAIT_S, "the record of what was freed")
    silent = kept.deaths("worker")[1]
    assert silent.how in ENDED_BY_FORCE
    assert silent.freed == {"messages": 3, "instances": 0, "stages": 0, "lanes": 0}
    wait_until(lambda: states(runtime.database) == ["ACK"] * 3, WAIT_S, "the third has all of it")
    assert {row["owner"] for row in rows(runtime.database, "message")} == {third.process_id}
    launched = [row["subject"] for row in events(runtime.database, "duty_launched")]
    assert launched == ["worker"] * 3


def test_who_cannot_be_kept_running_is_given_up_and_somebody_is_told(kept: Keeping) -> None:
    """Only deaths before it was ready count; a person can have it tried again."""
    runtime = kept.runtime
    kept.want("broken", BROKEN)
    kept.want_command("nothing", ("/no/such/program",))
    for name, how, code in (("broken", DeathKind.EXIT, 3), ("nothing", DeathKind.NEVER_READY, None)):
        failed = kept.wait_for(name, DutyState.FAILED)
        assert failed.early_deaths == runtime.settings.supervision.early_deaths == 3
        assert [(each.how, each.exit_code, each.freed) for each in kept.deaths(name)] == [(how, code, {})] * 3
    assert kept.duty("broken").trouble.endswith("no luck")
    assert "/no/such/program" in kept.duty("nothing").trouble
    assert kept.log("broken") == ["no luck"]
    told = {each.subject: each.title for each in runtime.notify.page()}
    assert told.keys() == {"broken", "nothing"}
    assert told["broken"].endswith("no luck")
    assert {row["subject"] for row in events(runtime.database, "duty_failed")} == told.keys()
    runtime.duties.restart("broken", who="ann", why="mended")
    again = kept.wait_for("broken", DutyState.FAILED, 6)
    assert again.early_deaths == 3


def test_stopped_and_started_in_order(kept: Keeping) -> None:
    runtime = kept.runtime
    kept.want("worker", WORKER)
    first = kept.wait_for("worker", DutyState.READY)
    runtime.duties.restart("worker", who="ann", why="new settings")
    second = kept.wait_for("worker", DutyState.READY, 2)
    assert second.process_id != first.process_id
    runtime.duties.stop("worker", who="bob", why="enough")
    stopped = kept.wait_for("worker", DutyState.STOPPED)
    assert (stopped.exit_code, stopped.launch_id) == (0, None)
    assert kept.log("worker")[-1] == "ended in order"
    assert kept.deaths("worker") == []
    ended = {row["id"]: row["state"] for row in rows(runtime.database, "process") if row["duty"] == "worker"}
    assert ended == {first.process_id: "stopped", second.process_id: "stopped"}
    assert [row["who"] for row in events(runtime.database, "duty_stopped")] == ["ann", "bob"]


def test_who_does_not_stop_is_ended_by_force(kept: Keeping) -> None:
    """And a program that is none of Towpath's counts as ready after a while."""
    kept.want("deaf", DEAF, reports=False, grace_s=0.3)
    kept.wait_for("deaf", DutyState.READY)
    wait_until(lambda: kept.log("deaf") == ["up"], WAIT_S)
    kept.runtime.duties.stop("deaf", who="ann", why="enough")
    stopped = kept.wait_for("deaf", DutyState.STOPPED)
    assert stopped.exit_signal == signal.SIGKILL


def test_a_silent_process_that_beats_is_left_alone(kept: Keeping) -> None:
    """The coordinator saw it silent; by the time it acts, the process has beaten."""
    kept.want("worker", WORKER)
    duty = kept.wait_for("worker", DutyState.READY)
    processes = kept.runtime.queue.parts.processes
    with kept.runtime.database.beats.single() as tx:
        assert not processes.mark_silent(tx, duty.process_id or "", 60_000_000)
    assert kept.duty("worker").launch == 1


@pytest.mark.part("kills")
@pytest.mark.realtime
@pytest.mark.parametrize("silent_s", [10.0])
def test_another_host_is_asked_over_the_queue(
    kept: Keeping, make_runtime: Callable[..., Runtime], tmp_path: Path, silent_s: float
) -> None:
    """The coordinator is here; a peer of the other host starts, sees the end, and ends by force."""
    far = make_runtime(**sections(tmp_path, "far", silent_s=silent_s))
    with keeping(far, coordinates=False):
        kept.want("worker", WORKER, host="far")
        kept.wait_for("worker", DutyState.READY, 1)
        assert (tmp_path / "far" / "worker").is_dir()
        assert not (tmp_path / HOST / "worker").exists()
        kept.signal("worker", signal.SIGKILL)
        kept.wait_for("worker", DutyState.READY, 2)
        assert [each.how for each in kept.deaths("worker")] == [DeathKind.SIGNAL]
        kept.pause("worker")
        kept.wait_for("worker", DutyState.READY, 3)
        assert kept.deaths("worker")[1].how in ENDED_BY_FORCE
        kept.runtime.duties.stop("worker", who="ann", why="enough")
        kept.wait_for("worker", DutyState.STOPPED)


def test_what_moves_to_another_host_ends_where_it_was(
    kept: Keeping, make_runtime: Callable[..., Runtime], tmp_path: Path, silent_s: float
) -> None:
    """Also what cannot find out by itself that another has taken its place."""
    runtime, far = kept.runtime, make_runtime(**sections(tmp_path, "far", silent_s=silent_s))
    up = Up(runtime.duties, runtime.steward, "another", runtime.settings.process.lease_s)
    spec = DutySpec(("sleep", "600"), environment=kept.environment, reports=False)

    def run_on(host: str) -> Duty:
        wanted = [NewDuty("sleeper", "command", host, spec)]
        assert up.up(wanted, who="ann", why="x", timeout_s=WAIT_S, show=lambda _: None).is_in_time
        return kept.duty("sleeper")

    with keeping(far, coordinates=False):
        first = run_on(HOST)
        second = run_on("far")
        assert (second.host, second.launch, second.state) == ("far", 2, DutyState.READY)
        assert not list(process_tree(f"{LAUNCH_VARIABLE}=sleeper:1:{first.launch_id}"))
        assert list(process_tree(f"{LAUNCH_VARIABLE}=sleeper:2:{second.launch_id}"))


# Fencing


def child(kept: Keeping, program: str, launch: str) -> subprocess.Popen[str]:
    environment = {**os.environ, **kept.environment, LAUNCH_VARIABLE: launch}
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def test_a_process_of_another_launch_leaves_before_it_does_anything(kept: Keeping) -> None:
    runtime = kept.runtime
    send_work(runtime, 2)
    kept.want("worker", WORKER)
    duty = kept.wait_for("worker", DutyState.READY)
    wait_until(lambda: states(runtime.database) == ["ACK"] * 2)
    before = rows(runtime.database, "duty"), len(events(runtime.database, "process_started"))
    for launch in (
        f"worker:1:{uuid4()}",
        f"worker:1:{duty.launch_id}",
        f"worker:2:{duty.launch_id}",
        f"other:1:{uuid4()}",
    ):
        with child(kept, WORKER, launch) as twin:
            out, err = twin.communicate(timeout=WAIT_S)
        assert (twin.returncode, out) == (EXIT_CODE_REPLACED, "")
        assert err
    assert (rows(runtime.database, "duty"), len(events(runtime.database, "process_started"))) == before


def test_a_process_whose_launch_was_replaced_leaves_at_its_next_beat(kept: Keeping) -> None:
    """As after a split: it could not be reached, and another was started elsewhere."""
    kept.want("worker", WORKER)
    kept.wait_for("worker", DutyState.READY)
    pid, other = kept.pid("worker"), str(uuid4())
    by_hand(kept.runtime.database, "update duty set launch_id = :other, process_id = 'x'", other=other)
    wait_until(lambda: born(pid) == "", WAIT_S, "the old one is gone")


def test_a_script_may_run_one_command_after_the_other(kept: Keeping, tmp_path: Path) -> None:
    """And what a process starts that has shown its launch has none to show."""
    (tmp_path / "short.py").write_text("import towpath\ntowpath.connect().close()\n")
    run_short = f"import subprocess; subprocess.run([sys.executable, '{tmp_path}/short.py'], check=True)"
    (tmp_path / "last.py").write_text(
        WORKER.replace("    runtime.process().ready", f"    {run_short}\n    runtime.process().ready")
    )
    script = f"{sys.executable} {tmp_path}/short.py && exec {sys.executable} {tmp_path}/last.py"
    kept.want_command("script", ("/bin/sh", "-c", script))
    kept.wait_for("script", DutyState.READY, 1)
    assert kept.deaths("script") == []


@pytest.mark.part("kills")
@pytest.mark.realtime
@pytest.mark.parametrize("silent_s", [3.0])  # nobody else of this test needs a lease
def test_a_keeper_that_stands_still_hides_no_death(kept: Keeping, tmp_path: Path, silent_s: float) -> None:
    """Nobody hears of the end of its process: so it is ended itself, as whatever stands still."""
    kept.want_command("sleeper", ("sleep", "600"), reports=False)
    first = kept.wait_for("sleeper", DutyState.READY, 1)
    looked = SubprocessLauncher(tmp_path / HOST).look(first.handle or "")
    assert looked.keeper is not None
    assert looked.pid is not None
    os.kill(looked.keeper, signal.SIGSTOP)
    os.kill(looked.pid, signal.SIGKILL)
    kept.wait_for("sleeper", DutyState.READY, 2)
    assert [each.how for each in kept.deaths("sleeper")] == [DeathKind.GONE]
