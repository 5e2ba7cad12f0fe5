"""`towpath process`, `status`, `up` and `down` on both databases."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import CommandLine
from tests.support.commands import TOWPATH
from tests.support.supervised import (
    BROKEN,
    HOST,
    LONG_SILENT_S,
    WAIT_S,
    WORKER,
    Keeping,
    end_all,
    keeping,
    sections,
)

from towpath.cli.supervision.status import NOBODY
from towpath.runtime import Runtime
from towpath.supervision.duties.model import DutyState
from towpath.supervision.launchers.process_tree import process_tree
from towpath.supervision.launchers.subprocess import SubprocessLauncher
from towpath.supervision.term import Term
from towpath.testing.clock import wait_until


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    return {**sections(tmp_path, silent_s=LONG_SILENT_S), "log": {"url": f"sqlite:///{tmp_path}/topics.db"}}


@pytest.fixture
def runtime(
    make_runtime: Callable[..., Runtime],
    settings: dict[str, Any],
    variables: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Runtime:
    """The commands have the same settings."""
    for section, values in settings.items():
        for name, value in values.items():
            monkeypatch.setenv(f"TOWPATH_{section.upper()}__{name.upper()}", str(value))
    return make_runtime(**settings)


@pytest.fixture
def kept(runtime: Runtime) -> Iterator[Keeping]:
    with keeping(runtime) as made:
        yield made


def test_a_process_from_its_start_to_its_end(kept: Keeping, command: CommandLine) -> None:
    kept.want("worker", WORKER)
    kept.want("broken", BROKEN)
    first = kept.wait_for("worker", DutyState.READY)
    failed = kept.wait_for("broken", DutyState.FAILED)

    shown = command.ok("process", "show", "worker", "--json").json
    assert (shown["name"], shown["state"], shown["host"], shown["launch"]) == ("worker", "ready", HOST, 1)
    assert (shown["running"]["id"], shown["running"]["duty"], shown["running"]["status"]) == (
        first.process_id,
        "worker",
        "works",
    )
    assert shown["running"]["version"]
    assert shown["deaths"] == []
    by_id = command.ok("process", "show", first.process_id, "--json").json
    assert (by_id["id"], by_id["duty"]) == (first.process_id, "worker")
    for words in (("process", "show", "worker"), ("process", "show", first.process_id), ("process", "show", "broken")):
        assert command.ok(*words).lines
    listed = {row["id"]: row for row in command.ok("process", "list", "--json").json["items"]}
    assert listed[first.process_id]["launch"] == 1
    wait_until(lambda: kept.log("worker"), WAIT_S, "what it has printed")
    assert command.ok("process", "logs", "worker").lines == [f"ready {first.process_id}"]
    assert command.ok("process", "logs", "broken", "--last", "1").lines == ["no luck"]
    deaths = command.ok("process", "deaths", "broken", "--json").json["items"]
    assert [(each["how"], each["exit_code"], each["trouble"]) for each in deaths] == [("exit", 3, "no luck")] * 3
    assert "no luck" in command.ok("process", "deaths").out

    status = command("status", "--check", "--json")
    assert status.code == 1
    assert {item["name"]: item["state"] for item in status.json["items"]} == {"worker": "ready", "broken": "failed"}
    tree = command.ok("status").lines
    assert tree[0].startswith("1 of 2 ")
    assert tree[1] == HOST
    assert any("worker" in line and "ready" in line and "works" in line for line in tree)
    assert any("broken" in line and "failed" in line and "no luck" in line for line in tree)

    told = command.ok("process", "stop", "broken", "--why", "hopeless", "--who", "ann").out
    assert "broken" in told
    assert kept.duty("broken").launch == failed.launch
    restarted = command.ok("process", "restart", "worker", "--why", "try", "--json").json
    assert restarted["has_coordinator"]
    kept.wait_for("worker", DutyState.READY, 2)
    wait_until(lambda: command("status", "--check").code == 0, WAIT_S, "all ready")
    command.ok("process", "stop", "worker", "--why", "enough")
    kept.wait_for("worker", DutyState.STOPPED)
    assert command("status", "--check").code == 1


def test_what_cannot_be_done_is_said(runtime: Runtime, command: CommandLine, tmp_path: Path) -> None:
    for words in (
        ("process", "stop", "nope", "--why", "x"),
        ("process", "restart", "nope", "--why", "x"),
        ("process", "logs", "nope"),
        ("process", "show", "nope"),
        ("process", "deaths", "nope"),
    ):
        command(*words).refused(1, "'nope'", "`towpath up`")
    command("process", "stop", "nope").refused(2, "--why")
    command("peer", "run", "--number", "9").refused(2, "supervision.peers is 3")
    assert "towpath up" in command.ok("status").out
    Keeping(runtime).want("far", WORKER, host="moon")
    command("process", "logs", "far").refused(1, "moon")
    # Nobody is there to see to it.
    told = command.ok("process", "restart", "far", "--why", "x").lines
    assert "far" in told[0]
    assert "towpath up" in told[1]


@pytest.fixture
def project(runtime: Runtime, tmp_path: Path) -> Iterator[Path]:
    """A directory with a settings file; whatever is started from it is ended."""
    home = tmp_path / "project"
    home.mkdir()
    (home / "towpath.toml").write_text(
        '[up.sleeper]\nkind = "command"\ncommand = ["sleep", "600"]\n\n[up.desk]\nkind = "desk"\n'
    )
    yield home
    end_all(runtime)


def towpath(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*TOWPATH, *words], cwd=cwd, capture_output=True, text=True, timeout=600, check=False)


def term_after(runtime: Runtime, number: int) -> Term | None:
    """The one that is held now, if it is a later one."""
    term = runtime.duties.overview().term
    return term if term.number > number and term.peer is not None else None


@pytest.mark.realtime
def test_up_and_down(project: Path, runtime: Runtime, command: CommandLine) -> None:
    """Everything comes up; a second `up` takes over; peers replace each other; all of it goes down, the peers last."""
    kept = Keeping(runtime)
    done = towpath("up", cwd=project)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("5 of 5 ready; peer ")
    before = {duty.name: duty.launch_id for duty in kept.duties()}
    assert before.keys() == {"peer-1", "peer-2", "peer-3", "sleeper", "desk"}

    again = towpath("up", cwd=project)
    assert (again.returncode, {duty.name: duty.launch_id for duty in kept.duties()}) == (0, before)

    term = runtime.duties.overview().term
    coordinator = f"peer-{term.peer}"
    launch = kept.duty(coordinator).launch
    os.kill(kept.pid(coordinator), signal.SIGKILL)
    os.kill(kept.pid("desk"), signal.SIGKILL)
    # The next term, and none of those that may follow when all are back: only another can have taken that one.
    after = wait_until(lambda: term_after(runtime, term.number), WAIT_S, "another term")
    assert after is not None
    assert after.peer != term.peer
    kept.wait_for(coordinator, DutyState.READY, launch + 1)
    wait_until(lambda: kept.duty("desk").launch > 1 and kept.duty("desk").state is DutyState.READY, WAIT_S, "the desk")
    assert {duty.name: duty.launch_id for duty in kept.duties()}["sleeper"] == before["sleeper"]

    down = towpath("down", cwd=project)
    assert down.returncode == 0, down.stderr
    assert {duty.state for duty in kept.duties()} == {DutyState.STOPPED}
    stopped = [line.split()[0] for line in down.stderr.splitlines() if line.endswith("is stopped")]
    assert set(stopped[-3:]) == {"peer-1", "peer-2", "peer-3"}
    assert [row.state for row in runtime.duties.overview().processes.values() if row.state == "alive"] == []


@pytest.mark.part("kills")
@pytest.mark.realtime
def test_up_in_the_foreground(project: Path, runtime: Runtime) -> None:
    """It stays; when all peers are gone it starts them again; told to end it stops all that runs here."""
    kept = Keeping(runtime)
    with subprocess.Popen([*TOWPATH, "up", "--foreground"], cwd=project, stderr=subprocess.PIPE, text=True) as staying:
        try:
            assert staying.stderr is not None
            said = iter(staying.stderr.readline, "")
            assert any("Ctrl-C" in line for line in said)
            pids = [kept.pid(f"peer-{number}") for number in (1, 2, 3)]
            for which in (signal.SIGSTOP, signal.SIGKILL):  # so that none of them brings another back
                for pid in pids:
                    os.kill(pid, which)
            for number in (1, 2, 3):
                kept.wait_for(f"peer-{number}", DutyState.READY, 2)
            staying.send_signal(signal.SIGTERM)
            assert staying.wait(300) == 0
        finally:
            staying.kill()
    assert {duty.state for duty in kept.duties()} == {DutyState.STOPPED}


@pytest.mark.part("kills")
@pytest.mark.realtime
def test_what_runs_is_found_from_another_directory(
    project: Path, runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is taken for ended because somebody looks from elsewhere, or after the setting has changed."""
    monkeypatch.delenv("TOWPATH_SUPERVISION__DIRECTORY")
    kept, config = Keeping(runtime), str(project / "towpath.toml")
    assert towpath("up", cwd=project).returncode == 0
    before = {duty.name: duty.launch_id for duty in kept.duties()}

    again = towpath("--config", config, "up", cwd=tmp_path)
    assert (again.returncode, {duty.name: duty.launch_id for duty in kept.duties()}) == (0, before)
    monkeypatch.setenv("TOWPATH_SUPERVISION__DIRECTORY", "elsewhere")
    again = towpath("up", cwd=project)
    assert (again.returncode, {duty.name: duty.launch_id for duty in kept.duties()}) == (0, before)
    assert towpath("--config", config, "down", cwd=tmp_path).returncode == 0
    assert not list(process_tree(f"TOWPATH_LAUNCH=sleeper:1:{before['sleeper']}"))


@pytest.mark.part("kills")
def test_the_same_database_from_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path counts from the settings, for the command, the peers and what works elsewhere."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for directory in (home, home / "sub", elsewhere):
        directory.mkdir()
    monkeypatch.setenv("TOWPATH_SUPERVISION__PEERS", "1")
    (home / "towpath.toml").write_text('[up.desk]\nkind = "desk"\ndirectory = "sub"\n')
    config = str(home / "towpath.toml")
    missing = towpath("--config", config, "status", cwd=elsewhere)
    assert (missing.returncode, str(home / "towpath.db") in missing.stderr) == (3, True)
    try:
        done = towpath("--config", config, "up", cwd=elsewhere)
        assert (done.returncode, done.stdout.startswith("2 of 2 ready; peer 1 ")) == (0, True), done
        assert towpath("status", "--check", cwd=home).returncode == 0
        assert towpath("--config", config, "status", "--check", cwd=elsewhere).returncode == 0
    finally:
        assert towpath("down", cwd=home).returncode == 0
    assert list(elsewhere.iterdir()) == list((home / "sub").iterdir()) == []


def test_up_where_nothing_is_named(tmp_path: Path) -> None:
    """Somebody is in the wrong directory: nothing is made there."""
    done = towpath("up", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert str(tmp_path) in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.part("kills")
@pytest.mark.realtime
def test_when_all_peers_are_gone(project: Path, runtime: Runtime, command: CommandLine) -> None:
    """Who has died meanwhile is seen, and its death is written down by whoever coordinates next."""
    kept = Keeping(runtime)
    assert towpath("up", cwd=project).returncode == 0
    assert NOBODY not in command.ok("status").lines
    before = {duty.name: duty.launch for duty in kept.duties()}
    for name in ("peer-1", "peer-2", "peer-3"):
        kept.signal(name, signal.SIGSTOP)  # so that none of them brings another back
    peers = [kept.pid(f"peer-{number}") for number in (1, 2, 3)]
    for pid in (*peers, kept.pid("desk"), sleeper_of(kept, runtime)):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not runtime.duties.overview().has_coordinator, WAIT_S, "the term is over")

    tree = command.ok("status").lines
    assert tree[0].startswith("0 of 5 ")
    assert tree[1] == NOBODY
    assert [line.split()[1:4:2] for line in tree[3:]] == [[name, "gone"] for name in sorted_as_shown(before)]
    items = command.ok("status", "--json").json["items"]
    assert all(item["is_gone"] for item in items)

    assert towpath("up", cwd=project).returncode == 0
    for name, launch in before.items():
        [death] = [each for each in kept.deaths(name) if each.launch == launch]
        assert (death.how, death.exit_signal) == ("signal", signal.SIGKILL)
    assert NOBODY not in command.ok("status").lines


def sorted_as_shown(names: dict[str, int]) -> list[str]:
    return sorted(names, key=lambda name: (not name.startswith("peer-"), name))


def sleeper_of(kept: Keeping, runtime: Runtime) -> int:
    looked = SubprocessLauncher(Path(runtime.settings.supervision.directory)).look(kept.duty("sleeper").handle or "")
    assert looked.pid is not None
    return looked.pid


@pytest.mark.part("kills")
@pytest.mark.realtime
@pytest.mark.parametrize("set_by_s", [0, -3600])
def test_up_right_after_everything_was_killed(project: Path, runtime: Runtime, set_by_s: float) -> None:
    """The rows of the dead say for a while that all is well; if the clock was set back, for a long while."""
    kept = Keeping(runtime)
    assert towpath("up", cwd=project).returncode == 0
    before = {duty.name: duty.launch for duty in kept.duties()}
    for duty in kept.duties():
        looked = SubprocessLauncher(Path(runtime.settings.supervision.directory)).look(duty.handle or "")
        assert looked.keeper
        os.kill(looked.keeper, signal.SIGKILL)
    runtime.database.shift_clock(set_by_s)
    done = towpath("up", cwd=project)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("5 of 5 ready; peer ")
    for duty in kept.duties():
        assert duty.launch > before[duty.name]
        assert list(process_tree(f"TOWPATH_LAUNCH={duty.name}:{duty.launch}:{duty.launch_id}"))
        assert before[duty.name] in [death.launch for death in kept.deaths(duty.name)]
