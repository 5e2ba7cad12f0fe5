"""Spawner actors with real processes, on both databases: work, its answers, its progress and its failures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.pausing import pause_without_a_lock
from tests.support.spawned import Absent, Broken, Hand, Late, Missing, Patient, Rig, is_spawned
from tests.support.tables import by_hand, events

from towpath.actors.spawner import launch as spawning
from towpath.actors.spawner.store import SpawnedStore
from towpath.errors import DatabaseUnavailable, RequestDied
from towpath.queue.payload import new_id
from towpath.testing.clock import wait_until


def test_one_process_works_on_all_that_waits_and_ends(rig: Rig) -> None:
    rig.actors.register(Hand)
    questions = [rig.send(Hand, ["double", n]) for n in range(5)]  # all before its process lingers for the next
    rig.run(Hand)
    assert [rig.outbox.wait(each, 60).payload for each in questions] == [0, 2, 4, 6, 8]
    row = rig.wait_row(Hand, lambda row: not row.is_running)
    assert (row.done, row.message_id) == (5, None)
    assert "exit code 0" in (row.ended or "")
    assert [f"process {row.pid}"] == rig.journal("process ")
    assert not Path(f"/proc/{row.pid}").exists()  # nothing is left of it, not even for its parent to ask about
    assert events(rig.runtime.database, "spawned_ended") == []
    assert rig.ask(Hand, ["double", 21]).payload == 42
    assert len(rig.journal("process ")) == 2


def test_looks_that_found_nothing_are_not_kept(rig: Rig) -> None:
    rig.run(Hand)
    first = wait_until(lambda: rig.instance(Hand).last_id)
    for _ in range(6):
        last = rig.instance(Hand).last_id
        wait_until(lambda before=last: rig.instance(Hand).last_id != before, 30)  # type: ignore[misc]
    kept = rig.actors.history("hand")
    assert len(kept) <= 4  # the start, the last look, the next one, and one that may have come meanwhile
    assert first not in {each.id for each in kept} or first == kept[-1].id


def test_progress_is_seen(rig: Rig, tmp_path: Path) -> None:
    rig.run(Hand)
    gate = tmp_path / "gate"
    question = rig.send(Hand, ["hold", str(gate)])
    row = rig.wait_row(Hand, lambda row: row.percent == 40)
    assert row.is_running
    assert (row.stage, row.message_id, row.attempt) == (f"holding {gate}", question, 1)
    assert rig.message(question).owner == row.process_id
    arguments = Path(f"/proc/{row.pid}/cmdline").read_text()
    assert "actor:hand:main" in arguments
    assert rig.runtime.settings.database.url not in arguments  # it may hold a password
    gate.touch()
    assert rig.outbox.wait(question, 60).payload == "held"


def test_work_that_fails_is_answered_by_the_same_process(rig: Rig) -> None:
    rig.run(Patient)
    assert rig.ask(Patient, ["raise", "no such page"]).payload == {"error": "ValueError: no such page"}
    assert rig.ask(Patient, ["exit", 3]).payload == {"error": "SystemExit: 3"}
    for value, reason in {
        "bytes": "JSON",
        "huge": "1,048,576",
        "nul": "NUL",
        "surrogate": "surrogate",
    }.items():
        error = rig.ask(Patient, ["answer", value]).payload["error"]
        assert reason in error
    assert rig.ask(Patient, ["connect", 0]).payload is True  # the same settings, as towpath.connect() finds them
    assert len(rig.journal("process ")) == 1


def test_a_process_that_dies_over_a_message_is_followed_by_another(rig: Rig) -> None:
    rig.run(Hand)
    assert rig.ask(Hand, ["die once", "it"]).payload == 2
    assert rig.journal("began") == ["began it attempt 1", "began it attempt 2"]
    [ended] = events(rig.runtime.database, "spawned_ended")
    assert "signal 9" in ended["why"]


@pytest.mark.part("kills")
def test_a_message_that_kills_every_process_is_given_up(rig: Rig) -> None:
    rig.run(Hand)
    with pytest.raises(
        RequestDied,
        match=r"signal 9[^$]*this is the end",
    ):
        rig.ask(Hand, ["die", "poison"])
    assert rig.journal("began") == [f"began poison attempt {n}" for n in (1, 2, 3, 4)]
    assert rig.ask(Hand, ["double", 4]).payload == 8


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (Broken, "tests/support/spawned_broken.py, line 3: RuntimeError: the moon is in the wrong place"),
        (Missing, "tests.support.spawned_work has no function 'no_such_function'"),
        (Absent, "there is no program 'no-such-program-anywhere' on the path"),
    ],
)
def test_what_cannot_be_run_fails_the_spawner_and_spares_the_messages(rig: Rig, cls: type[Hand], reason: str) -> None:
    rig.run(cls)
    message = rig.send(cls, 1)
    assert reason in rig.wait_failed(cls)
    assert rig.message(message).state == "NEW"


def test_a_boot_loop(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawning, "MAIN_MODULE", "no_such_module_anywhere")
    rig.run(Hand)
    message = rig.send(Hand, ["double", 1])
    reason = rig.wait_failed(Hand)
    assert "exit code 1" in reason
    assert "No module named no_such_module_anywhere" in reason
    assert len(events(rig.runtime.database, "process_spawned")) == 1
    assert rig.message(message).state == "NEW"


def test_processes_that_are_killed_before_they_take_a_message(rig: Rig) -> None:
    rig.run(Late)
    poison = rig.send(Late, 1)
    dead = rig.wait_message(poison, "DEAD")
    assert "signal 9" in (dead.reason or "")
    assert len(events(rig.runtime.database, "process_spawned")) == 2
    other = rig.send(Late, 2)
    rig.wait_row(Late, lambda row: row.is_running)
    assert rig.message(other).state == "NEW"
    assert rig.instance(Late).is_live


def test_no_process_can_be_started(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    rig.run(Late)
    dead = rig.wait_message(rig.send(Late, 1), "DEAD")
    assert dead.reason
    monkeypatch.undo()
    assert rig.instance(Late).is_live


@pytest.mark.part("kills")
@pytest.mark.realtime
@pytest.mark.parametrize("spawned_lease_s", [6.0])
def test_a_process_that_stands_still_is_killed_and_followed_by_another(
    rig: Rig, tmp_path: Path, spawned_lease_s: float
) -> None:
    rig.run(Hand)
    gate = tmp_path / "gate"
    question = rig.send(Hand, ["hold", str(gate)])
    row = rig.wait_row(Hand, lambda row: row.percent == 40)
    assert row.pid is not None
    pause_without_a_lock(row.pid, rig.runtime.database)  # its lease runs out
    rig.wait_row(Hand, lambda now: now.launch_id not in (None, row.launch_id) and now.percent == 40)
    assert not is_spawned(row.pid)
    gate.touch()
    assert rig.outbox.wait(question, 60).payload == "held"
    assert rig.journal("began") == [f"began {gate} attempt {n}" for n in (1, 2)]


@pytest.mark.part("kills")
def test_threads_that_the_work_left_do_not_keep_the_process(rig: Rig) -> None:
    rig.run(Hand)
    assert rig.ask(Hand, ["linger", 0]).payload == "left a thread"
    assert "exit code 0" in (rig.wait_row(Hand, lambda row: not row.is_running).ended or "")


def test_a_message_that_waits_while_no_host_runs(rig: Rig) -> None:
    rig.actors.register(Hand)
    question = rig.send(Hand, ["double", 3])
    rig.run(Hand)
    assert rig.outbox.wait(question, 60).payload == 6


@pytest.mark.part("kills")
def test_instances_have_processes_of_their_own(rig: Rig, tmp_path: Path) -> None:
    rig.run(Hand)
    rig.actors.start(Hand, instance="../second")
    gates = [tmp_path / "one", tmp_path / "two"]
    questions = [rig.send(Hand, ["hold", str(gate)]) for gate in gates]
    wait_until(lambda: len(rig.journal("began")) == 2, 60)
    for gate in gates:
        gate.touch()
    assert [rig.outbox.wait(each, 60).payload for each in questions] == ["held", "held"]
    assert sorted(each.name for each in (tmp_path / "actors").iterdir()) == ["hand-..%2Fsecond.log", "hand-main.log"]


@pytest.mark.part("kills")
def test_a_launch_of_which_nobody_knows_anything_is_waited_for_and_then_replaced(rig: Rig) -> None:
    """Its host may have died, or stand still, on another machine."""
    rig.actors.register(Hand)
    database = rig.runtime.database
    with database.transaction() as tx:
        SpawnedStore(database).begin(tx, "actor:hand:main", Hand.inbox, new_id())
    question = rig.send(Hand, ["double", 3])
    rig.run(Hand)
    wait_until(lambda: rig.instance(Hand).step == "Attend")
    before = rig.instance(Hand).last_id
    wait_until(lambda: rig.instance(Hand).last_id != before, 30)
    assert events(database, "process_spawned") == []
    by_hand(database, "update spawned set launched_at = launched_at - 61000000")
    assert rig.outbox.wait(question, 60).payload == 6
    [ended] = events(database, "spawned_ended")
    assert "60 s" in ended["why"]


@pytest.mark.part("kills")
def test_the_database_is_away_for_a_moment(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    away = iter(range(5))
    read = SpawnedStore.read

    def fail_at_first(store: SpawnedStore, *given: Any) -> Any:
        if next(away, None) is not None:
            raise DatabaseUnavailable("restarting")
        return read(store, *given)

    monkeypatch.setattr(SpawnedStore, "read", fail_at_first)
    rig.actors.register(Hand)
    question = rig.send(Hand, ["double", 3])
    rig.run(Hand)
    assert rig.outbox.wait(question, 60).payload == 6
    assert next(away, None) is None
