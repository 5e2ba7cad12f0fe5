"""Hosts of spawners are killed; their processes go on, or never begin; no message is worked on twice for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.spawned import CALM, JOURNAL, Hand, Rig, is_spawned
from tests.support.tables import by_hand

from towpath.core.crash import CrashPoint
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until
from towpath.testing.processes import ChildProcess

ROOT = Path(__file__).parents[2]


class Hosts:
    """Hosts as processes of their own, beside a rig that only looks."""

    def __init__(self, rig: Rig, database: dict[str, Any], home: Path) -> None:
        self.rig = rig
        self._home = home
        self._sections = {
            "database": database,
            "process": CALM,
            "queue": {"poll_s": 0.5, "caretaker_s": 0.1},
            "actors": {"directory": str(home / "actors")},
        }
        self._begun: list[ChildProcess] = []

    def begin(self, crash_at: str | None = None) -> ChildProcess:
        told = {"sections": self._sections, "classes": ["Hand"]}
        host = ChildProcess(
            "tests.support.spawned_host", told, log=self._home / "hosts.log", crash_at=crash_at, cwd=ROOT
        )
        self._begun.append(host)
        return host

    def end(self) -> None:
        for host in self._begun:
            with host:
                pass


@pytest.fixture
def hosts(
    make_runtime: Callable[..., Runtime],
    database_settings: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Hosts]:
    journal = tmp_path / "journal"
    monkeypatch.setenv(JOURNAL, str(journal))
    rig = Rig(make_runtime(process=CALM), journal)
    rig.actors.register(Hand)
    rig.actors.start(Hand)
    made = Hosts(rig, database_settings, tmp_path)
    yield made
    made.end()
    rig.end()


def test_a_process_outlives_its_host_and_gets_no_twin(hosts: Hosts, tmp_path: Path) -> None:
    rig, gate = hosts.rig, tmp_path / "gate"
    host = hosts.begin()
    question = rig.send(Hand, ["hold", str(gate)])
    row = rig.wait_row(Hand, lambda row: row.percent == 40)
    host.kill()
    later = rig.send(Hand, ["double", 4])
    hosts.begin()
    seen = rig.instance(Hand).last_id
    wait_until(lambda: rig.instance(Hand).last_id not in (None, seen), 60, "a look of the new host")
    seen = rig.instance(Hand).last_id
    wait_until(lambda: rig.instance(Hand).last_id not in (None, seen), 60, "another look of the new host")
    assert row.pid is not None
    assert is_spawned(row.pid)
    gate.touch()
    assert rig.outbox.wait(question, 60).payload == "held"
    assert rig.outbox.wait(later, 60).payload == 8
    assert rig.journal() == [f"process {row.pid}", f"began {gate} attempt 1", "began 4 attempt 1"]
    rig.wait_row(Hand, lambda now: not now.is_running)  # the new host has seen its end as well
    assert rig.ask(Hand, ["double", 5]).payload == 10


def test_host_and_process_are_killed(hosts: Hosts, tmp_path: Path) -> None:
    rig, gate = hosts.rig, tmp_path / "gate"
    host = hosts.begin()
    question = rig.send(Hand, ["hold", str(gate)])
    row = rig.wait_row(Hand, lambda row: row.percent == 40)
    host.kill()
    assert row.pid is not None
    os.kill(row.pid, signal.SIGKILL)
    hosts.begin()
    wait_until(lambda: len(rig.journal("began")) == 2, 60)
    gate.touch()
    assert rig.outbox.wait(question, 60).payload == "held"
    assert rig.journal("began") == [f"began {gate} attempt {n}" for n in (1, 2)]
    assert len(rig.journal("process")) == 2


def test_a_process_on_another_machine_is_known_by_its_lease(hosts: Hosts, tmp_path: Path) -> None:
    rig, gate = hosts.rig, tmp_path / "gate"
    host = hosts.begin()
    question = rig.send(Hand, ["hold", str(gate)])
    row = rig.wait_row(Hand, lambda row: row.percent == 40)
    host.kill()
    by_hand(rig.runtime.database, "update spawned set machine = 'elsewhere', pid = 1")
    by_hand(rig.runtime.database, "update process set host = 'elsewhere' where id = :id", id=row.process_id)
    hosts.begin()
    for _ in range(2):
        seen = rig.instance(Hand).last_id
        wait_until(lambda before=seen: rig.instance(Hand).last_id not in (None, before), 60)  # type: ignore[misc]
    assert rig.journal("process") == [f"process {row.pid}"]
    rig.actors.abort("hand", who="lev", why="wrong machine")  # nobody can signal it there: its row reaches it
    rig.wait_failed(Hand)
    assert row.pid is not None
    wait_until(lambda: not is_spawned(row.pid or 0), 60, "the end of the process")
    assert rig.message(question).reason == "aborted by lev: wrong machine"


def test_a_host_that_is_told_to_stop_leaves_the_process_at_work(hosts: Hosts, tmp_path: Path) -> None:
    rig, gate = hosts.rig, tmp_path / "gate"
    host = hosts.begin()
    question = rig.send(Hand, ["hold", str(gate)])
    rig.wait_row(Hand, lambda row: row.percent == 40)
    host.signal(signal.SIGTERM)
    host.wait_done()
    gate.touch()
    assert rig.outbox.wait(question, 60).payload == "held"


# The first state of a run that is told to die here is Watch, the second Launch, the third Attend.
DEATHS = [
    f"{CrashPoint.TURN_BEFORE_COMMIT}:1",  # the launch id is not written
    f"{CrashPoint.TURN_AFTER_COMMIT}:1",  # it is, and no process is started
    f"{CrashPoint.TURN_BEGUN}:2",
    f"{CrashPoint.TURN_DONE}:2",  # a process is started, and nobody knows
    f"{CrashPoint.TURN_BEFORE_COMMIT}:2",
    f"{CrashPoint.TURN_AFTER_COMMIT}:2",
    f"{CrashPoint.TURN_DONE}:3",
    f"{CrashPoint.ACTORS_CLAIM_AFTER_COMMIT}:2",
]


@pytest.mark.part("kills")
@pytest.mark.parametrize("death", DEATHS)
def test_whenever_the_host_dies_one_process_works_once(hosts: Hosts, death: str) -> None:
    rig = hosts.rig
    question = rig.send(Hand, ["double", 21])
    hosts.begin(crash_at=death).wait_killed()
    hosts.begin()
    assert rig.outbox.wait(question, 60).payload == 42
    rig.wait_row(Hand, lambda row: not row.is_running)
    assert len(rig.journal("process")) == 1
    assert rig.journal("began") == ["began 21 attempt 1"]
    assert rig.instance(Hand).is_live


def test_two_hosts_at_once(hosts: Hosts) -> None:
    rig = hosts.rig
    hosts.begin()
    hosts.begin()
    assert rig.ask(Hand, ["double", 21]).payload == 42
    assert len(rig.journal("process")) == 1


def test_an_abort_while_no_host_runs_is_carried_out_by_the_next(hosts: Hosts, tmp_path: Path) -> None:
    rig, gate = hosts.rig, tmp_path / "gate"
    host = hosts.begin()
    question = rig.send(Hand, ["hold", str(gate)])
    row = rig.wait_row(Hand, lambda row: row.percent == 40)
    host.kill()
    rig.actors.abort("hand", who="lev", why="enough")
    hosts.begin()
    assert rig.wait_failed(Hand) == "aborted by lev: enough"
    assert rig.message(question).reason == "aborted by lev: enough"
    assert row.pid is not None
    assert not is_spawned(row.pid)


@pytest.mark.part("kills")
def test_hosts_and_processes_are_killed_at_random(hosts: Hosts) -> None:
    rig, random, kills = hosts.rig, Random(7), 5
    host = hosts.begin()
    questions = {n: rig.send(Hand, ["slowly double", n]) for n in range(30)}
    for _ in range(kills):
        # At least two more: what the last one died over must not die of this test.
        enough = len(rig.journal("began")) + 2 + random.randrange(3)
        wait_until(lambda upto=enough: len(rig.journal("began")) >= upto, 60, "some work")  # type: ignore[misc]
        if random.random() < 0.5:
            host.kill()
            host = hosts.begin()
        pid = int(rig.journal("process")[-1].split()[1])
        if is_spawned(pid):
            os.kill(pid, signal.SIGKILL)
    assert {n: rig.outbox.wait(question, 100).payload for n, question in questions.items()} == {
        n: 2 * n for n in range(30)
    }
    assert 30 <= len(rig.journal("began")) <= 30 + kills
    assert len(rig.journal("process")) <= 1 + kills
