"""`towpath flow`: what people and programs are shown of flows, out of the database alone."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import CommandLine, on_terminal

import towpath
from towpath.core.events import EventKind
from towpath.flow.delivery.ledger import Counts, Ledger
from towpath.flow.delivery.positions import OffsetRange, Positions
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.records.errors import BatchName, error_records, gap_record
from towpath.flow.stage import RetryWaits, StageMachine, StageState, StageTrouble
from towpath.flow.stage.store import StageStore
from towpath.flow.worker.report import FailedRecord
from towpath.log import NewRecord
from towpath.runtime import Runtime

FLOW, STAGE = "shop", "events"
TWO_HOURS = 2 * 3600 * 1_000_000
TOPOLOGY = {
    "topics": ["events"],
    "steps": [
        {"name": "events", "kind": "source", "inputs": []},
        {"name": "priced", "kind": "each", "inputs": ["events"]},
    ],
    "outputs": [{"name": "files results", "input": "priced", "sink": "files results"}],
}
PARTITIONS = [
    {"topic": "events", "partition": 0, "position": 1200, "end": 1500, "lag": 300},
    {"topic": "shop.reentry", "partition": 0, "position": 0, "end": 0, "lag": 0},
]
SAMPLE = {"partitions": PARTITIONS, "lag": 300, "rate": 12.5, "totals": {}}
COUNTS: Counts = {
    "read": 9,
    "loaded": 5,
    "filtered": {"bought": 2},
    "failed": {"8": 1, "9": 1},
    "delivered": {"files": 5},
}


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """A database with one stage that this process runs."""
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/towpath.db"
    monkeypatch.setenv("TOWPATH_DATABASE__URL", url)
    with towpath.connect(url, database={"synchronous": "normal"}) as runtime:
        stages = StageStore(runtime.database)
        owner = runtime.process().id
        with runtime.database.transaction() as tx:
            stage = stages.ensure(tx, FLOW, STAGE, TOPOLOGY, "1.2")
            stages.take(tx, FLOW, STAGE, owner)
            stages.new_generation(
                tx, stage, owner, checkpoint="/flows/shop", starting=Positions.of([]), topics={"events": ["id"]}
            )
            stages.save_sample(tx, FLOW, STAGE, owner, SAMPLE)
        yield runtime


@pytest.fixture
def put(runtime: Runtime) -> Callable[..., None]:
    """Brings the stage into a state."""

    def save(machine: Callable[[StageMachine, int], StageMachine]) -> None:
        now = runtime.database.now()
        moved = machine(StageMachine.new(now).started(now), now)
        with runtime.database.transaction() as tx:
            StageStore(runtime.database).save_machine(tx, FLOW, STAGE, runtime.process().id, moved)

    return save


def waiting(machine: StageMachine, now: int) -> StageMachine:
    trouble = StageTrouble(ErrorCode.SINK_UNAVAILABLE, "load", "connection refused\x1b[31m")
    return machine.failed(trouble, now, RetryWaits(30.0, 60.0, random.Random(1)))


def test_the_list_for_people_and_for_programs(runtime: Runtime, put: Any, command: CommandLine) -> None:
    put(lambda machine, now: machine.moved(StageState.EXTRACT, now - TWO_HOURS))
    head, row = command.ok("flow", "list").lines
    assert head.split() == ["flow", "stage", "state", "for", "rate/s", "lag", "run", "by"]
    assert row.split() == [FLOW, STAGE, "extract", "2h", "12.5", "300", runtime.process().id]
    [item] = command.ok("flow", "list", "--json").json["items"]
    assert (item["state"], item["lag"], item["is_run"], item["runner"]) == ("extract", 300, True, "alive")


def test_one_flow(runtime: Runtime, command: CommandLine) -> None:
    commit(runtime, 0)
    gap = OffsetRange("events", "id", 0, 3, 7)
    with runtime.database.transaction() as tx:
        Ledger(runtime.database).add_gap(tx, FLOW, STAGE, 1, gap, "deleted before it was read")
    shown = command.ok("flow", "show", FLOW).out
    for text in (
        "steps       events (source), priced (each)",
        "loads       files results from priced",
        "filtered    2: 2 by bought",
        "failed      2: 1 with code 8, 1 with code 9",
        "gap: events will never read events/0 from 3 to before 7: deleted before it was read",
    ):
        assert text in shown
    found = command.ok("flow", "show", FLOW, "--json").json
    assert found["stages"][0]["totals"]["read"] == 9
    assert (found["gaps"][0]["start"], found["gaps"][0]["stop"]) == (3, 7)


def test_the_state_of_a_stage_that_waits(runtime: Runtime, put: Any, command: CommandLine) -> None:
    put(waiting)
    shown = command.ok("flow", "state", FLOW).out
    assert {"retry", "configure"} <= set(shown.split())
    assert r"connection refused\x1b[31m" in shown
    assert runtime.process().id in shown
    assert [line.split() for line in shown.splitlines()[-2:]] == [
        ["partition", "position", "end", "lag"],
        ["events/0", "1,200", "1,500", "300"],
    ]
    [item] = command.ok("flow", "state", FLOW, STAGE, "--json").json["items"]
    assert item["last_error"]["code"] == 10
    assert item["partitions"] == PARTITIONS


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_is_wider_than_the_terminal(
    width: int, runtime: Runtime, put: Any, command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(waiting)
    commit(runtime, 0)
    on_terminal(monkeypatch, width)
    for words in (["list"], ["batches", FLOW, "--positions"]):
        assert max(map(len, command.ok("flow", *words).lines)) <= width


def test_who_runs_it_is_dead(runtime: Runtime, command: CommandLine) -> None:
    me = runtime.process()
    me.stop()
    assert f"run by   nobody: {me.id} is stopped" in command.ok("flow", "state", FLOW).out
    [item] = command.ok("flow", "state", FLOW, "--json").json["items"]
    assert (item["is_run"], item["owner"], item["rate"]) == (False, me.id, 0.0)


@pytest.mark.parametrize(
    "words", [["show", "nope"], ["state", "nope"], ["batches", "nope"], ["pause", "nope", "--why", "x"]]
)
def test_an_unknown_flow(words: list[str], runtime: Runtime, command: CommandLine) -> None:
    command("flow", *words).refused(1, "'nope'", FLOW)


def test_an_unknown_stage(runtime: Runtime, command: CommandLine) -> None:
    command("flow", "state", FLOW, "nope").refused(1, "'shop/nope'", "shop/events")


def commit(runtime: Runtime, number: int) -> None:
    ledger = Ledger(runtime.database, runtime.process().id)
    positions = Positions.of([OffsetRange("events", "id", 0, 9 * number, 9 * number + 9)])
    with runtime.database.transaction() as tx:
        ledger.snapshot(tx, FLOW, STAGE, 1, number, f"{number:064}", positions)
        ledger.commit(tx, FLOW, STAGE, 1, number, counts=COUNTS, digests={}, timings={"total_s": 1.25})


def test_batches_the_newest_first(runtime: Runtime, command: CommandLine) -> None:
    for number in range(3):
        commit(runtime, number)
    _, first, second = command.ok("flow", "batches", FLOW, "--limit", 2, "--positions").lines
    assert first.split()[:8] == ["1/2", "committed", "1", "9", "5", "2", "2", "1.2s"]
    assert first.endswith("events/0 from 18 to 27")
    assert second.split()[0] == "1/1"
    [oldest] = command.ok("flow", "batches", FLOW, STAGE, "--before", "1/1", "--json").json["items"]
    assert (oldest["batch_id"], oldest["counts"]["failed"]) == (0, {"8": 1, "9": 1})
    command("flow", "batches", FLOW, "--before", "x").refused(2, "GENERATION/BATCH")


def test_errors(runtime: Runtime, command: CommandLine) -> None:
    batch = BatchName(FLOW, STAGE, "", 1, 0, "hash", "me")
    failed = [
        FailedRecord("events", 0, at, 1, None, b"{}", (), RecordFailure(code, step, kind, message), None, None)
        for at, (code, step, kind, message) in enumerate(
            [
                (ErrorCode.NOT_VALID, "events", "schema", "field cents: expected bigint"),
                (ErrorCode.TRANSFORM_FAILED, "priced", "KeyError", "'shells'"),
            ]
        )
    ]
    runtime.log.create_topic("shop.errors", 1)
    gap = gap_record(OffsetRange("events", "id", 0, 3, 7), "deleted", batch)
    runtime.log.append("shop.errors", [*error_records(failed, batch, {"events": "id"}), gap])
    runtime.log.append("shop.errors", [NewRecord(b"of somebody else")])
    lines = command.ok("flow", "errors", FLOW).lines
    assert [line.split()[:4] for line in lines[1:3]] == [
        ["shop.errors/0/0", "events/0/0", "8", "events"],
        ["shop.errors/0/1", "events/0/1", "9", "priced"],
    ]
    assert lines[2].endswith("KeyError: 'shells'")
    assert len(lines) == 4
    [item] = command.ok("flow", "errors", FLOW, "--code", 9, "--step", "priced", "--json").json["items"]
    assert (item["record"], item["offset"], item["exception"]) == ("shop.errors/0/1", 1, "KeyError")
    command("flow", "errors", "other").refused(1, "'other.errors'")


def test_spark_is_not_loaded(runtime: Runtime) -> None:
    program = """
import sys
from towpath.cli import main
for words in ("list", "show shop", "state shop", "batches shop", "reset shop --yes --why x --wait 0"):
    assert main(["flow", *words.split()]) == 0
print("pyspark" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "False"
    with runtime.database.read() as tx:
        [event] = runtime.event_log.page(tx, limit=5, kind=EventKind.FLOW_ASKED_BY_HAND)
    assert (event.subject, event.why, event.data) == ("shop/events", "x", {"wish": "reset", "to": "earliest"})
