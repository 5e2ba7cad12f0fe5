"""`towpath init`, `towpath run` and the steering of a running flow, for real: as the tutorial says, and by signals."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from soak.delivery import tree
from tests.support.commands import run, started
from tests.unit.test_docs import DOCS, examples

import towpath
from towpath.flow.delivery.ledger import Ledger
from towpath.flow.stage import StageMachine, StageState
from towpath.flow.stage.store import StageStore
from towpath.log import NewRecord
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

pytestmark = pytest.mark.timeout(300)  # each of them waits for Spark to start

TUTORIAL = DOCS / "tutorial" / "first-flow.md"
COMMAND = re.compile(r"^\$ (.*)$", re.MULTILINE)
LOG = "run.log"
ENDLESS = re.compile(r"towpath (run flow.py$|flow (state shop --watch|pause|resume|stop))")


def commands(text: str) -> list[str]:
    return [line for line in COMMAND.findall(text) if not ENDLESS.match(line)]


def paste(script: list[str], directory: Path) -> str:
    """What a shell says that stops at the first failure."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(script)],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "incubator" not in done.stderr
    return done.stdout


@pytest.mark.part("guides")
def test_the_tutorial_and_the_readme_of_a_new_project(tmp_path: Path) -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    out = paste(commands(text), tmp_path)
    project = tmp_path / "shop"
    blocks = [block.strip() for _, block in examples(TUTORIAL)]
    assert "\n\n\n".join(blocks) == (project / "flow.py").read_text().strip()  # the page explains all of it
    readme = commands((project / "README.md").read_text(encoding="utf-8"))
    assert [line for line in commands(text) if line in readme] == readme
    for block in re.findall(r"^\$ [^\n]*\n((?:[^$`][^\n]*\n)+)", text, re.MULTILINE):
        assert block in out  # what the page shows is what is said
    assert "1 passed" in out


FLOW = """
import time
from towpath import Flow, files, topic
from prices import rate

flow = Flow("steered")

@flow.each(topic("events"), schema="id string, rest double")
def priced(event):
    time.sleep(event.get("rest", 0))
    return {**event, "rate": rate(event["id"])}

flow.load(priced, files("results"))
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory to work in; the flow and the module that it imports are in another one."""
    flows = tmp_path / "flows"
    flows.mkdir()
    (flows / "steered.py").write_text(FLOW)
    (flows / "prices.py").write_text("def rate(id):\n    return {'a': 1, 'b': 2, 'c': 3}[id]\n")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setenv("TOWPATH_DATABASE__URL", f"sqlite:///{home}/towpath.db")
    monkeypatch.setenv("TOWPATH_SPARK__MASTER", "local[1]")
    yield home
    sys.stderr.write((home / LOG).read_text())  # shown when the test fails


def said(*words: object) -> str:
    done = run(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def state(name: str = "state") -> object:
    return json.loads(said("flow", "state", "steered", "--json"))["items"][0][name]


def loaded(home: Path) -> list[tuple[str, int]]:
    lines = [line for path in (home / "results").glob("*.jsonl") for line in path.read_text().splitlines()]
    return sorted((document["id"], document["rate"]) for document in map(json.loads, lines))


def is_settled(runtime: Runtime) -> bool:
    """Files are seen before their directory is synced: whoever deletes it then lets the batch be tried again."""
    with runtime.database.read() as tx:
        [last] = Ledger(runtime.database).batches(tx, "steered", "events", 1)
    return last.committed_at is not None


def send(runtime: Runtime, *documents: dict[str, object]) -> None:
    runtime.log.append("events", [NewRecord(json.dumps(document).encode()) for document in documents])


def halt(runtime: Runtime) -> None:
    """As if an earlier run had come to an end that a person has to look at."""
    stages, owner, now = StageStore(runtime.database), runtime.process().id, runtime.database.now()
    machine = StageMachine.new(now).started(now).rested(StageState.HALTED, "somebody has to look at it", now)
    with runtime.database.transaction() as tx:
        stages.ensure(tx, "steered", "events", {"topics": []})
        stages.take(tx, "steered", "events", owner)
        stages.release(tx, "steered", "events", owner, machine)


def is_at_work(runtime: Runtime) -> bool:
    with runtime.database.read() as tx:
        [stage] = StageStore(runtime.database).list(tx, "steered")
    return stage.machine.state == "transform"


@pytest.mark.part("guides")
def test_a_running_flow_is_steered_from_another_terminal_and_left_by_signals(home: Path) -> None:
    with towpath.connect() as runtime:
        runtime.log.create_topic("events", 1)
        halt(runtime)
        said("flow", "resume", "steered", "--why", "I have looked")
        send(runtime, {"id": "a"})
        log = home / LOG
        with log.open("w") as file, started("run", "../flows/steered.py", "--name", "at-work", stderr=file) as process:
            wait_until(lambda: loaded(home) == [("a", 1)] or process.poll(), 120, "the first record")
            assert "paused" in said("flow", "pause", "steered", "--wait", "50", "--why", "x")
            send(runtime, {"id": "b"})
            assert (state(), state("is_run")) == ("paused", True)
            said("flow", "resume", "steered", "--wait", "50", "--why", "x")
            wait_until(lambda: loaded(home) == [("a", 1), ("b", 2)], 60, "the record that came in the pause")

            wait_until(lambda: is_settled(runtime), 60, "the commit of its batch")
            shutil.rmtree(home / "results")
            assert "generation 2" in said("flow", "reset", "steered", "--yes", "--wait", "50", "--why", "x")
            wait_until(lambda: loaded(home) == [("a", 1), ("b", 2)], 60, "all records once more")

            send(runtime, {"id": "c", "rest": 300})
            wait_until(lambda: state() == "transform", 60, "the batch that never ends")
            process.send_signal(signal.SIGINT)
            wait_until(lambda: "stopping" in log.read_text())
            assert state() == "transform"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 130
        assert state("runner") == "stopped"
        assert str(state("owner")).startswith("at-work-")


@pytest.mark.part("guides")
def test_a_flow_ends_when_the_java_of_spark_is_killed_and_goes_on_when_started_again(home: Path) -> None:
    with towpath.connect() as runtime:
        runtime.log.create_topic("events", 1)
        send(runtime, {"id": "a"})
        log = home / LOG
        with log.open("w") as file, started("run", "../flows/steered.py", stderr=file) as process:
            wait_until(lambda: loaded(home) == [("a", 1)] or process.poll(), 120, "the first record")
            # Java comes before what it starts itself for a moment, which has "java" in its path as well.
            [java, *_] = [each for each in tree.descendants(process.pid) if b"java" in each.command.partition(b"\0")[0]]
            send(runtime, {"id": "b", "rest": 8})
            wait_until(lambda: is_at_work(runtime) or process.poll(), 60, "a batch at work")
            os.kill(java.pid, signal.SIGKILL)
            assert process.wait(60) == 1
        assert "SIGKILL" in log.read_text()
        assert run("run", "../flows/steered.py", "--until-idle").returncode == 0
        assert loaded(home) == [("a", 1), ("b", 2)]
