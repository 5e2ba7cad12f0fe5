"""`towpath actor run` as a real process: what it runs and shows, and how it ends, by real signals too."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.actors import Count, Counter, Theatre
from tests.support.commands import TIMEOUT_S, run, started

from towpath.actors.instance import Phase
from towpath.actors.turn import ActorStart
from towpath.cli.actors.views import MOST_AT_ONCE, ActorEventLines
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

ACTORS = '''
import time
from pathlib import Path
from towpath.actors import Actor, End, Failed, Resume, Sleep, Turn, state

@state
class Hold:
    """Holds until it is told."""

@state(resume=Resume.RETRY)
class Held:
    pass

class Holder(Actor):
    """Holds until a file is there."""
    def transition(self, state: Hold | Held | End | Failed, turn: Turn):
        match state:
            case Hold():
                Path("begun").touch()
                while not Path("go").exists():
                    time.sleep(0.01)
                return Held()
            case Held():
                return End("held")

@state
class Nap:
    seconds: float

@state
class Awake:
    is_well: bool = True

class Napper(Actor):
    """Sleeps."""
    def transition(self, state: Nap | Awake, turn: Turn):
        match state:
            case Nap(seconds):
                return Sleep(Awake(), seconds=seconds)
            case Awake(True):
                return End({"slept": True})
            case Awake():
                raise ValueError("slept badly")
'''


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> Path:
    """A directory whose settings name a module beside them."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "run_actors.py").write_text(ACTORS)
    (home / "towpath.toml").write_text('[actors]\nmodules = ["run_actors"]\ngrace_s = 30\n')
    monkeypatch.chdir(home)
    return home


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime], home: Path) -> Runtime:
    return make_runtime()


def start(runtime: Runtime, actor: str, state: str, instance: str = "main", **fields: Any) -> None:
    """As the command does it; the class is not known here."""
    runtime.actors.start_by_hand(ActorStart(actor, instance, state, fields), "ann", "test")


def phase(runtime: Runtime, actor: str, instance: str = "main") -> Phase:
    return runtime.actors.instance(actor, instance).phase


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, out, err


def test_until_idle(runtime: Runtime) -> None:
    """What is due soon is waited for; what sleeps for long, and what has failed, is not."""
    start(runtime, "napper", "Nap", "short", seconds=1)
    start(runtime, "napper", "Nap", "long", seconds=3600)
    start(runtime, "napper", "Awake", "bad", is_well=False)
    done = run("actor", "run", "--until-idle")
    assert done.returncode == 0, done.stderr
    said = [line.partition("  ")[2] for line in done.stdout.decode().splitlines()]
    assert any(line.startswith("napper:short  Nap → ") for line in said)
    assert any(line.startswith("napper:short  ") and line.endswith('{"slept": true}') for line in said)
    assert "napper:bad  Awake → Failed (ValueError: slept badly)" in said
    assert any(line.startswith("napper:bad  failed") for line in said)
    assert [word for word in said[-1].split() if word.isdigit()] == ["1", "1"]
    assert b"holder, napper " in done.stderr
    assert [phase(runtime, "napper", each) for each in ("short", "long", "bad")] == [
        Phase.ENDED,
        Phase.SLEEPING,
        Phase.FAILED,
    ]


def test_a_start_that_is_refused_is_shown(runtime: Runtime) -> None:
    for _ in range(2):
        start(runtime, "napper", "Nap", seconds=3600)
    done = run("actor", "run", "--until-idle")
    said = [line.partition("  ")[2] for line in done.stdout.decode().splitlines()]
    assert any(line.startswith("napper:main  actor refused  ") for line in said), said


SPAWNER = """
from pathlib import Path
from towpath.actors import Job, Spawner

class Printer(Spawner):
    \"""Prints.\"""
    inbox = "print"
    entry = "spawns.py:print_it"
    look_s = 0.2
    linger_s = 0.1

def print_it(job: Job):
    with Path("printed").open("a") as file:
        file.write(f"{job.payload}\\n")
"""


def test_who_watches_an_inbox_does_not_keep_it_from_being_idle(runtime: Runtime, home: Path) -> None:
    """It ends when all that has come is done, also what came while nothing ran."""
    (home / "spawns.py").write_text(SPAWNER)
    runtime.queue.inbox("print")
    outbox = runtime.queue.outbox("test")
    for number in range(3):
        outbox.notice("print", "PRINT", number)
    start(runtime, "printer", "Watch")
    done = run("actor", "run", "./spawns.py", "--until-idle")
    assert done.returncode == 0, done.stderr
    assert (home / "printed").read_text().split() == ["0", "1", "2"]
    assert phase(runtime, "printer") is Phase.SLEEPING


def test_lines_for_programs(runtime: Runtime) -> None:
    start(runtime, "napper", "Nap", seconds=0)
    done = run("actor", "run", "--until-idle", "--json")
    turns = [each for each in map(json.loads, done.stdout.splitlines()) if each["kind"] == "turn"]
    assert [(each["state"], each["next"], each["next_phase"]) for each in turns] == [
        ("Nap", "Awake", "sleeping"),
        ("Awake", "End", "running"),
        ("End", None, None),
    ]
    assert {each["subject"] for each in turns} == {"napper:main"}
    assert {each["message_id"] for each in turns} < {each.id for each in runtime.actors.history("napper")}


def test_modules_are_found_beside_the_settings(runtime: Runtime, home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    start(runtime, "napper", "Awake")
    done = run("--config", home / "towpath.toml", "actor", "run", "--until-idle", cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert phase(runtime, "napper") is Phase.ENDED


def test_modules_that_are_named(runtime: Runtime, home: Path) -> None:
    (home / "towpath.toml").unlink()
    runtime.queue.inbox("work")
    done = run("actor", "run", "./run_actors.py", "--until-idle", "--name", "worker")
    assert done.returncode == 0, done.stderr
    assert b"runs holder, napper as process worker-" in done.stderr


def test_sigterm_lets_the_running_state_finish(runtime: Runtime, home: Path) -> None:
    start(runtime, "holder", "Hold")
    with started("actor", "run") as process:
        wait_until((home / "begun").exists, timeout_s=TIMEOUT_S)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopping: 1 states run" in _said(process), timeout_s=TIMEOUT_S)
        assert process.poll() is None
        assert phase(runtime, "holder") is Phase.RUNNING
        (home / "go").touch()
        code, out, err = end(process)
    assert (code, "holder:main  Hold → Held" in out) == (0, True), err
    assert [(each.function, each.state) for each in runtime.actors.history("holder")][::-1] == [
        ("Hold", "ACK"),
        ("Hold", "OK"),
        ("Held", "NEW"),
    ]
    assert phase(runtime, "holder") is Phase.READY, "it has made way: no one has to wait for a lease"
    assert run("actor", "run", "--until-idle").returncode == 0
    assert phase(runtime, "holder") is Phase.ENDED


def test_a_second_ctrl_c_leaves_at_once(runtime: Runtime, home: Path) -> None:
    start(runtime, "holder", "Hold")
    with started("actor", "run") as process:
        wait_until((home / "begun").exists, timeout_s=TIMEOUT_S)
        process.send_signal(signal.SIGINT)
        wait_until(lambda: "stopping" in _said(process), timeout_s=TIMEOUT_S)
        process.send_signal(signal.SIGINT)
        assert end(process)[0] == 130
    assert phase(runtime, "holder") is Phase.RUNNING, "nobody knows yet"
    done = run("actor", "run", "--until-idle")
    found = runtime.actors.instance("holder")
    assert found.phase is Phase.FAILED, done
    assert "in Hold" in (found.reason or "")


def test_a_state_that_does_not_finish_is_left(runtime: Runtime, home: Path) -> None:
    start(runtime, "holder", "Hold")
    (home / "towpath.toml").write_text('[actors]\nmodules = ["run_actors"]\ngrace_s = 0.2\n')
    with started("actor", "run") as process:
        wait_until((home / "begun").exists, timeout_s=TIMEOUT_S)
        process.send_signal(signal.SIGTERM)
        code, _, err = end(process)
    assert code == 1
    assert "holder:main" in err
    assert phase(runtime, "holder") is Phase.RUNNING
    assert run("actor", "run", "--until-idle").returncode == 0
    assert phase(runtime, "holder") is Phase.FAILED


def test_a_broken_module_ends_it(home: Path, runtime: Runtime) -> None:
    (home / "run_actors.py").write_text("import json\n1 / 0\n")
    done = run("actor", "run")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"error: run_actors.py, line 2: ZeroDivisionError: division by zero (1 / 0)\n"


def test_a_reader_that_goes_away(runtime: Runtime, home: Path) -> None:
    """The process ends as any other command does, and leaves nothing that others would have to free."""
    start(runtime, "holder", "Hold")
    with started("actor", "run") as process:
        wait_until((home / "begun").exists, timeout_s=TIMEOUT_S)
        assert process.stdout is not None
        process.stdout.close()
        (home / "go").touch()
        assert process.wait(TIMEOUT_S) == 141
    assert phase(runtime, "holder") in (Phase.READY, Phase.ENDED)


def test_a_flood_is_counted_and_not_shown(theatre: Theatre, capsys: pytest.CaptureFixture[str]) -> None:
    shown = ActorEventLines(as_json=False)
    theatre.host.listen(shown.on_done)
    theatre.actors.start(Counter, Count(1000))
    theatre.rest_of("counter", timeout_s=60)
    # The last one is counted before it is kept: who waited for the count could be shown all but that one.
    wait_until(lambda: len(shown._waiting) == 1003 - 1, timeout_s=30)
    shown.show_end()
    lines = [line.partition("  ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == ["counter:main  Count → Count"] * 2
    more, end = lines[MOST_AT_ONCE:]
    assert str(1003 - 1 - MOST_AT_ONCE) in more.split()
    assert [word for word in end.split() if word.isdigit()] == ["1", "0"]


_SAID: dict[int, str] = {}


def _said(process: subprocess.Popen[str]) -> str:
    """What it has written on standard error so far; a line must be there, or on its way."""
    assert process.stderr is not None
    _SAID[process.pid] = _SAID.get(process.pid, "") + process.stderr.readline()
    return _SAID[process.pid]
