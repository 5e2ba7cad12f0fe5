"""Flows, their audit and traces over HTTP: from the stores that flows write, without Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.audited import FLOW, ME, STAGE, TOPIC
from tests.support.cli import CommandLine
from tests.support.desk_life import Life
from tests.support.http import API, Client, MakeClient, error_of, make_key
from tests.support.quiet import Quiet
from tests.support.same_json import printed
from tests.support.sweep import sweep
from tests.support.tables import events, rows

from towpath.flow.audit import audit as bounded
from towpath.flow.delivery.ids import batch_hash
from towpath.flow.delivery.ledger import Ledger
from towpath.flow.delivery.positions import OffsetRange, Positions
from towpath.flow.stage import StageMachine, StageState
from towpath.flow.stage.store import StageStore
from towpath.runtime import Runtime

FLOWS = f"{API}/flows"
ONE = f"{FLOWS}/{FLOW}"
TOPOLOGY = {
    "topics": [TOPIC],
    "steps": [
        {"name": TOPIC, "kind": "source", "inputs": []},
        {"name": "label", "kind": "each", "inputs": [TOPIC]},
    ],
    "outputs": [{"name": "out", "input": "label", "sink": "index views"}],
}
SAMPLE = {
    "partitions": [{"topic": TOPIC, "partition": 0, "position": 3, "end": 5, "lag": 2}],
    "lag": 2,
    "rate": 1.5,
    "totals": {},
    "history": [[1_700_000_000, 7, 1.0], [1_700_000_030, 2, 1.5]],
}


@pytest.fixture
def log_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/log.db"


@pytest.fixture
def quiet(make_quiet: Callable[..., Quiet], log_url: str) -> Quiet:
    """Who runs the flow never beats: with the usual lease it would be overdue before a busy machine has looked."""
    return make_quiet(log={"url": log_url}, process={"lease_s": 3600.0})


@pytest.fixture
def runtime(quiet: Quiet) -> Runtime:
    return quiet.runtime


@pytest.fixture
def life(quiet: Quiet) -> Life:
    """A flow that a living process runs."""
    made = Life(quiet, quiet.runtime.log)
    stages, owner = made.stages, quiet.runtime.process().id
    with made.database.transaction() as tx:
        stages.save_sample(tx, FLOW, STAGE, ME, SAMPLE)
        stages.save_topology(tx, FLOW, STAGE, ME, TOPOLOGY, "1.2")
        stages.take(tx, FLOW, STAGE, owner, ME)
    made.ledger = Ledger(made.database, owner)
    return made


@pytest.fixture
def operator(make_client: MakeClient) -> Client:
    return make_client("operator")


@pytest.fixture
def viewer(make_client: MakeClient) -> Client:
    return make_client("viewer")


@pytest.fixture
def configured(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log_url: str) -> None:
    """The command line on the same database and log."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOWPATH_LOG__URL", log_url)


def put(life: Life, move: Callable[[StageMachine, int], StageMachine]) -> None:
    """Bring the stage into a state."""
    now, owner = life.database.now(), life.stage.owner
    with life.database.transaction() as tx:
        life.stages.save_machine(tx, FLOW, STAGE, owner, move(StageMachine.new(now).started(now), now))


def another_stage(runtime: Runtime, batches: int) -> None:
    """With batches of nothing."""
    stages, owner = StageStore(runtime.database), runtime.process().id
    ledger = Ledger(runtime.database, owner)
    with runtime.database.transaction() as tx:
        stage = stages.ensure(tx, FLOW, "late", {})
        stages.take(tx, FLOW, "late", owner)
        stages.new_generation(tx, stage, owner, checkpoint="/d", starting=Positions.of([]), topics={})
    for number in range(batches):
        positions = Positions.of([OffsetRange("late", "id", 0, number, number + 1)])
        hash = batch_hash(FLOW, "late", 1, number, positions)
        with runtime.database.transaction() as tx:
            ledger.snapshot(tx, FLOW, "late", 1, number, hash, positions)
            ledger.commit(tx, FLOW, "late", 1, number, counts={"read": 1, "loaded": 1}, digests={})


def trail(runtime: Runtime) -> list[tuple[str, str, str, str]]:
    return [(row["who"], row["what"], row["subject"], row["outcome"]) for row in rows(runtime.database, "access_audit")]


# Looking


def test_the_list(viewer: Client, life: Life, command: CommandLine, configured: None) -> None:
    life.send("loaded", "failed", "filtered")
    life.run_batch()
    [item] = viewer.get(FLOWS).json()["items"]
    assert item["stages"] == printed(command, "flow", "list")["items"]
    assert (item["flow"], item["lag"], item["rate"]) == (FLOW, 2, 1.5)
    assert item["counts"] == {"read": 3, "loaded": 1, "filtered": 1, "failed": 1}
    assert item["errors"] == {"9": 1}


def test_one_flow(viewer: Client, life: Life, command: CommandLine, configured: None) -> None:
    life.send("loaded", "failed")
    life.run_batch()
    life.add_gap(life.snapshot(), OffsetRange(TOPIC, life.topic.id, 0, 2, 4))
    shown = viewer.get(ONE).json()
    assert printed(command, "flow", "show", FLOW).items() <= shown.items()
    [stage] = shown["stages"]
    assert (stage["version"], stage["totals"]["read"], stage["partitions"]) == ("1.2", 2, SAMPLE["partitions"])
    assert stage["topology"] == TOPOLOGY
    assert [(gap["start"], gap["stop"]) for gap in shown["gaps"]] == [(2, 4)]
    assert shown["mermaid"].splitlines() == [
        "flowchart LR",
        f'    s0n0[/"{TOPIC}"/]',
        '    s0n1(["label"])',
        "    s0n0 --> s0n1",
        '    s0n1 --> s0o0[("index views")]',
    ]


@sweep("path", ["", "/batches", "/history", "/audit"])
def test_a_flow_that_has_never_run(path: str, viewer: Client) -> None:
    answer = viewer.get(f"{FLOWS}/nothing{path}")
    assert (answer.status_code, error_of(answer)["code"]) == (404, "unknown_flow")
    assert viewer.get(FLOWS).json() == {"items": []}


def test_batches_come_in_pages_over_all_stages(
    viewer: Client, life: Life, runtime: Runtime, command: CommandLine, configured: None
) -> None:
    for _ in range(3):
        life.send("loaded")
        life.run_batch()
    another_stage(runtime, 4)
    whole = viewer.get(f"{ONE}/batches").json()
    assert whole["next"] is None
    assert whole["items"] == printed(command, "flow", "batches", FLOW)["items"]
    seen: list[Any] = []
    params: dict[str, Any] = {"limit": 2}
    while True:
        page = viewer.get(f"{ONE}/batches", params=params).json()
        seen += page["items"]
        if page["next"] is None:
            break
        params["before"] = page["next"]
    assert seen == whole["items"]
    assert len(seen) == 7
    [newest, *_] = viewer.get(f"{ONE}/batches", params={"stage": STAGE}).json()["items"]
    assert (newest["stage"], newest["batch_id"], newest["counts"]["read"]) == (STAGE, 2, 1)
    for before in ("x", "1-2", "1-2_1-2_1-2"):
        refused = viewer.get(f"{ONE}/batches", params={"before": before})
        assert (refused.status_code, error_of(refused)["code"]) == (422, "bad_value")
    assert viewer.get(f"{ONE}/batches", params={"stage": "none"}).status_code == 404


def test_figures_for_charts(viewer: Client, life: Life) -> None:
    life.send("loaded", "failed", "failed")
    life.run_batch()
    life.send("filtered")
    life.run_batch()
    [stage] = viewer.get(f"{ONE}/history", params={"width_s": 3600}).json()["stages"]
    assert (stage["stage"], stage["width_s"]) == (STAGE, 3600)
    committed = stage["committed"]
    assert sum(each["batches"] for each in committed) == 2
    assert sum(each["read"] for each in committed) == 4
    assert sum(each["failed"].get("9", 0) for each in committed) == 2
    assert [point["lag"] for point in stage["lag"]] == [7, 2]
    assert stage["lag"][0]["at"] == "2023-11-14T22:13:20Z"
    refused = viewer.get(f"{ONE}/history", params={"minutes": 1440, "width_s": 1})
    assert (refused.status_code, error_of(refused)["code"]) == (422, "bad_value")


def test_what_troubles_a_stage_is_not_told_to_who_may_not_see_records(
    make_quiet: Callable[..., Quiet], life: Life, log_url: str
) -> None:
    put(life, lambda machine, now: machine.rested(StageState.HALTED, "no price for ann@example.org", now))
    runtime = make_quiet(log={"url": log_url}, desk={"masked": {FLOW: ["email"]}}).runtime
    masked, admin = (Client(runtime, make_key(runtime, role)) for role in ("viewer", "admin"))
    for path in (FLOWS, ONE):
        assert "ann@example.org" not in masked.get(path).text
        assert masked.get(path).status_code == 200
        assert "ann@example.org" in admin.get(path).text


# Asking


@pytest.mark.parametrize(
    ("what", "body"), [("pause", {}), ("stop", {"stage": STAGE}), ("reset", {"to": "latest"}), ("resume", {})]
)
def test_something_is_asked_of_a_flow(
    what: str, body: dict[str, Any], operator: Client, life: Life, runtime: Runtime
) -> None:
    is_halted = what == "resume"

    def move(machine: StageMachine, now: int) -> StageMachine:
        return machine.rested(StageState.HALTED, "why", now) if is_halted else machine.moved(StageState.EXTRACT, now)

    put(life, move)
    answer = operator.ask(f"/flows/{FLOW}/{what}", {**body, "why": "maintenance"})
    [item] = answer.json()["items"]
    assert (answer.status_code, item["wish"]["kind"], item["is_done"]) == (200, what, False)
    wish = life.stage.wish
    assert (wish.kind, wish.who, wish.why) == (what, "operator", "maintenance")
    assert wish.arguments == ({"to": "latest"} if what == "reset" else {})
    [event] = events(runtime.database, "flow_asked_by_hand")
    assert (event["subject"], event["who"]) == (f"{FLOW}/{STAGE}", "operator")
    subject = f"{FLOW}/{STAGE}" if "stage" in body else FLOW
    assert trail(runtime) == [("operator", f"{what} flow", subject, "done")]


@sweep(
    ("path", "body", "status", "code"),
    [
        (f"{FLOW}/resume", {}, 409, "illegal_wish"),
        (f"{FLOW}/pause", {"stage": "none"}, 404, "unknown_flow"),
        ("nothing/pause", {}, 404, "unknown_flow"),
        (f"{FLOW}/reset", {"to": "yesterday"}, 422, "not_valid"),
        (f"{FLOW}/pause", {"wait": 3}, 422, "not_valid"),
    ],
)
def test_what_cannot_be_asked(
    path: str, body: dict[str, Any], status: int, code: str, operator: Client, life: Life, runtime: Runtime
) -> None:
    put(life, lambda machine, now: machine.moved(StageState.EXTRACT, now))
    answer = operator.ask(f"/flows/{path}", {**body, "why": "x"})
    assert (answer.status_code, error_of(answer)["code"]) == (status, code)
    assert life.stage.wish is None
    assert trail(runtime)[-1][3] == "refused"


def test_nobody_runs_what_is_to_be_stopped(operator: Client, quiet: Quiet) -> None:
    Life(quiet, quiet.runtime.log)
    answer = operator.ask(f"/flows/{FLOW}/stop")
    assert (answer.status_code, error_of(answer)["code"]) == (409, "illegal_wish")


@sweep("what", ["pause", "resume", "stop", "reset"])
def test_a_viewer_asks_for_nothing(what: str, viewer: Client, life: Life, runtime: Runtime) -> None:
    answer = viewer.ask(f"/flows/{FLOW}/{what}")
    assert (answer.status_code, error_of(answer)["code"]) == (403, "not_allowed")
    assert life.stage.wish is None
    assert events(runtime.database, "flow_asked_by_hand") == []


def test_a_wish_is_made_once_under_one_key(operator: Client, life: Life, runtime: Runtime) -> None:
    put(life, lambda machine, now: machine.moved(StageState.EXTRACT, now))
    answers = [operator.ask(f"/flows/{FLOW}/pause", idempotency_key="k") for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert len(events(runtime.database, "flow_asked_by_hand")) == 1


def test_what_a_reset_would_do(viewer: Client, life: Life) -> None:
    life.send("loaded", "loaded", "loaded")
    life.send("loaded", partition=1)
    life.run_batch()
    life.send("loaded", "loaded", partition=1)
    latest = viewer.ask(f"/flows/{FLOW}/reset/count", {"to": "latest"}).json()
    assert (latest["passed_over_at_most"], latest["read_again_at_most"]) == (2, 0)
    of = {(each["topic"], each["partition"]): each for each in latest["partitions"]}
    assert (of[TOPIC, 1]["position"], of[TOPIC, 1]["goes_on_at"], of[TOPIC, 1]["passed_over"]) == (1, 3, 2)
    assert "never loaded" in latest["means"]
    earliest = viewer.ask(f"/flows/{FLOW}/reset/count", {"to": "earliest"}).json()
    assert (earliest["passed_over_at_most"], earliest["read_again_at_most"]) == (0, 4)
    assert life.stage.wish is None
    assert viewer.ask("/flows/nothing/reset/count", {}).status_code == 404
    assert viewer.ask(f"/flows/{FLOW}/reset/count", {"why": "x"}).status_code == 422


# Where records are


def test_the_balance(viewer: Client, life: Life, command: CommandLine, configured: None) -> None:
    life.send("loaded", "failed", "filtered", "failed")
    life.run_batch()
    life.send("loaded")
    life.take()
    found = viewer.get(f"{ONE}/audit").json()
    assert found["why"] is None
    assert found["counted"] == printed(command, "audit", FLOW)
    assert found["counted"]["places"] == {"loaded": 1, "filtered": 1, "open": 2, "in flight": 1}
    assert found["ledger"] == {
        "read": 4,
        "places": {"loaded": 1, "filtered": 1, "failed": 2},
        "difference": 0,
        "desk": {"open": 2},
        "in_flight_at_most": 2,
        "skipped_at_most": 0,
    }


def test_counting_is_bounded(viewer: Client, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    life.send("loaded", "loaded")
    life.run_batch()

    def told() -> tuple[Any, str]:
        found = viewer.get(f"{ONE}/audit").json()
        assert found["ledger"]["read"] == 2
        return found["counted"], found["why"]

    assert viewer.get(f"{ONE}/audit", params={"within_s": 0}).json()["counted"] is None
    assert viewer.get(f"{ONE}/audit", params={"within_s": 21}).status_code == 422
    monkeypatch.setattr(bounded, "MOST_OFFSETS", 1)
    counted, why = told()
    assert counted is None
    assert f"towpath audit {FLOW}" in why
    monkeypatch.setattr(bounded, "MOST_BATCHES", 0)
    assert told()[0] is None


def test_counting_is_given_up_in_time(viewer: Client, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is told each record here, and the time is over by then."""
    life.send("loaded", "loaded")
    life.run_batch()
    monkeypatch.setattr("towpath.flow.audit.view.TELL_EVERY", 1)
    found = viewer.get(f"{ONE}/audit", params={"within_s": 1e-9}).json()
    assert found["counted"] is None
    assert f"towpath audit {FLOW}" in found["why"]


def test_a_record_is_traced_by_its_place_its_key_a_document_and_its_case(
    viewer: Client, life: Life, command: CommandLine, configured: None
) -> None:
    life.send("loaded", "failed")
    life.run_batch()
    life.take()
    [case] = life.all_cases()
    told = printed(command, "trace", f"{TOPIC}/0/1", "--flow", FLOW)["items"]
    ways: list[dict[str, Any]] = [
        {"flow": FLOW, "topic": TOPIC, "partition": 0, "offset": 1},
        {"flow": FLOW, "topic": TOPIC, "key": "k1"},
        {"flow": FLOW, "id": f"{TOPIC}:0:0:1"},
        {"case": case.seq},
        {"case": case.id},
        {"case": case.id, "flow": FLOW},
    ]
    for way in ways:
        found = viewer.get(f"{API}/trace", params=way).json()
        assert (found["flow"], found["items"]) == (FLOW, told), way
    [item] = told
    assert (item["place"], item["cases"][0]["id"], item["failures"][0]["code"]) == ("open", case.id, 9)
    by_key = viewer.get(f"{API}/trace", params=ways[1]).json()
    assert (by_key["matches"], by_key["offsets_read"]) == (1, None)
    assert viewer.get(f"{API}/trace", params={**ways[1], "key": "zz"}).json()["items"] == []


@sweep(
    ("params", "status", "code"),
    [
        ({}, 422, "not_valid"),
        ({"flow": FLOW}, 422, "not_valid"),
        ({"topic": TOPIC, "partition": 0, "offset": 0}, 422, "not_valid"),
        ({"flow": FLOW, "topic": TOPIC, "partition": 0}, 422, "not_valid"),
        ({"flow": FLOW, "case": "1", "topic": TOPIC}, 422, "not_valid"),
        ({"flow": FLOW, "id": "17"}, 422, "bad_value"),
        ({"flow": FLOW, "id": f"{TOPIC}:0:0:{'9' * 30}"}, 422, "bad_value"),
        ({"flow": FLOW, "id": f"{TOPIC}:7:0:0"}, 422, "bad_value"),
        ({"flow": FLOW, "topic": "other", "partition": 0, "offset": 0}, 422, "bad_value"),
        ({"flow": FLOW, "topic": "other", "key": "k"}, 422, "bad_value"),
        ({"flow": FLOW, "topic": TOPIC, "partition": 7, "offset": 0}, 404, "unknown_partition"),
        ({"flow": "nothing", "topic": TOPIC, "partition": 0, "offset": 0}, 404, "unknown_flow"),
        ({"case": "999"}, 404, "unknown_case"),
    ],
)
def test_what_cannot_be_traced(params: dict[str, Any], status: int, code: str, viewer: Client, life: Life) -> None:
    life.send("loaded")
    answer = viewer.get(f"{API}/trace", params=params)
    assert (answer.status_code, error_of(answer)["code"]) == (status, code)


def test_a_trace_quotes_nothing_that_is_hidden(make_quiet: Callable[..., Quiet], life: Life, log_url: str) -> None:
    life.send("failed")
    life.run_batch()
    life.take()
    [case] = life.all_cases()
    with life.database.transaction() as tx:
        life.cases.move(tx, [case.id], case.state, who="ann", why="it says zz")
    runtime = make_quiet(log={"url": log_url}, desk={"masked": {FLOW: ["email", "$key"]}}).runtime
    masked, admin = (Client(runtime, make_key(runtime, role)) for role in ("viewer", "admin"))
    way = {"case": case.id}
    assert "zz" in admin.get(f"{API}/trace", params=way).text
    answer = masked.get(f"{API}/trace", params=way)
    assert "zz" not in answer.text
    [item] = answer.json()["items"]
    assert (item["place"], item["record"]["key"], item["failures"][0]["message"]) == ("open", "•••", "•••")
    refused = masked.get(f"{API}/trace", params={"flow": FLOW, "topic": TOPIC, "key": "k0"})
    assert (refused.status_code, error_of(refused)["code"]) == (403, "fields_masked")


@pytest.mark.part("matrix")
def test_none_of_it_loads_spark(tmp_path: Path) -> None:
    program = f"""
import sys
import towpath
from tests.support.http import API, Client, close_loop, make_key
with towpath.connect("sqlite:///{tmp_path}/t.db") as runtime:
    client = Client(runtime, make_key(runtime))
    asked = ("flows", "flows/x", "flows/x/history", "flows/x/audit", "trace?case=1", "topics", "actors/classes")
    print([client.get(f"{{API}}/{{path}}").status_code for path in asked], "pyspark" in sys.modules)
close_loop()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "[200, 404, 404, 404, 404, 200, 200] False\n", done.stderr
