"""`towpath flow check`: a file compared with what the database has of its last run. Nothing is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import CommandLine

import towpath
from towpath.flow.delivery.ledger import Ledger
from towpath.flow.delivery.positions import OffsetRange, Positions
from towpath.flow.flow import find_flow
from towpath.flow.stage.store import StageStore
from towpath.runtime import Runtime

FILE = """
from towpath import Flow, files, topic
flow = Flow("shop", delivery="exactly-once")
flow.load(topic("events"), files("{directory}"), name="{name}")
"""
START = Positions.of([OffsetRange("events", "id", 0, 0, 0)])


def target(name: str = "out", directory: str = "out") -> str:
    path = Path(f"flow_{name}_{directory}.py")
    path.write_text(FILE.format(name=name, directory=directory), encoding="utf-8")
    return str(path)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/towpath.db"
    monkeypatch.setenv("TOWPATH_DATABASE__URL", url)
    with towpath.connect(url, database={"synchronous": "normal"}) as runtime:
        yield runtime


def run_once(runtime: Runtime) -> None:
    stages, owner = StageStore(runtime.database), runtime.process().id
    [stage] = find_flow(target()).flow.stages()
    with runtime.database.transaction() as tx:
        stages.ensure(tx, "shop", "events", stage.topology())
        row = stages.take(tx, "shop", "events", owner)
        topics = {"events": ["id"], "shop.reentry": ["id2"]}
        stages.new_generation(tx, row, owner, checkpoint="c", starting=START, topics=topics)


def test_a_flow_that_has_not_run_and_one_that_is_the_same(runtime: Runtime, command: CommandLine) -> None:
    new = command.ok("flow", "check", target()).out
    assert "shop/events" in new
    run_once(runtime)
    same = command.ok("flow", "check", target()).out
    assert "shop/events" in same
    assert same != new


def test_changes_are_told_and_a_refusal_fails(runtime: Runtime, command: CommandLine) -> None:
    run_once(runtime)
    told = command("flow", "check", target(directory="other"))
    assert told.code == 0
    assert "other" in told.out
    with runtime.database.transaction() as tx:
        Ledger(runtime.database, runtime.process().id).snapshot(tx, "shop", "events", 1, 0, "0" * 64, START)
    refused = command("flow", "check", target(directory="other"))
    assert refused.code == 1
    assert "batch 0" in refused.out
    [stage] = command("flow", "check", target(directory="other"), "--json").json["stages"]
    assert stage["refused"].startswith("batch 0")
