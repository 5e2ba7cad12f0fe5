"""Processes and supervision over HTTP: what the command line shows, and wishes in somebody's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import CommandLine
from tests.support.http import API, Client, MakeClient, error_of, make_key
from tests.support.supervised import BROKEN, HOST, LONG_SILENT_S, WORKER, Keeping, keeping, sections
from tests.support.tables import by_hand, events, rows

from towpath.desk.masks import MASK
from towpath.runtime import Runtime
from towpath.supervision.duties.model import DeathKind, DutySpec, DutyState, NewDuty
from towpath.supervision.duties.store import DeathStore, NewDeath
from towpath.testing.clock import wait_until


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    # Two looks are compared, and somebody coordinates at both: no term ends while a busy machine stands still.
    return {
        **sections(tmp_path, silent_s=LONG_SILENT_S, lease_s=600.0, docker_socket=str(tmp_path / "no.sock")),
        "log": {"url": f"sqlite:///{tmp_path}/topics.db"},
    }


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


@pytest.fixture
def wanted(runtime: Runtime) -> Runtime:
    """Two things that have to run; nobody sees to it."""
    spec = DutySpec(("sleep", "600"), environment={"PASSWORD": "hunter2"})
    named = [NewDuty("worker", "command", HOST, spec), NewDuty("far", "command", "moon", spec)]
    runtime.duties.want(named, who="ann", why="begin")
    return runtime


def died(runtime: Runtime, *duties: str) -> None:
    """Deaths, the first one first."""
    store = DeathStore(runtime.database)
    with runtime.database.transaction() as tx:
        for launch, duty in enumerate(duties, 1):
            how = (DeathKind.EXIT, 3, None, f"no luck {launch}")
            store.record(tx, NewDeath(duty, launch, None, HOST, 7, *how, None, 1, "peer-1"))


def trail(runtime: Runtime) -> list[tuple[str, str, str, str]]:
    return [(row.who, row.what, row.subject, row.outcome) for row in runtime.access.trail()]


def without_beats(shown: Any) -> Any:
    """What is the same a moment later: a process goes on beating."""
    if isinstance(shown, dict):
        return {name: without_beats(each) for name, each in shown.items() if name not in ("beat_at", "lease_until")}
    return [without_beats(each) for each in shown] if isinstance(shown, list) else shown


@pytest.mark.part("matrix")
def test_a_process_from_its_start_to_its_end(kept: Keeping, make_client: MakeClient, command: CommandLine) -> None:
    kept.want("worker", WORKER)
    kept.want("broken", BROKEN)
    first = kept.wait_for("worker", DutyState.READY)
    kept.wait_for("broken", DutyState.FAILED)
    operator, viewer = make_client("operator"), make_client("viewer")

    def look(path: str) -> Any:
        answer = viewer.get(f"{API}/{path}")
        assert answer.status_code == 200, answer.text
        return without_beats(answer.json())

    def said(*words: object) -> Any:
        return without_beats(command.ok(*words, "--json").json)

    for name in ("worker", "broken", str(first.process_id)):
        assert look(f"processes/{name}") == said("process", "show", name)
    assert look("supervision/duties/broken") == said("process", "show", "broken")
    listed = look("processes")
    assert listed == said("process", "list")
    assert first.process_id in {row["id"] for row in listed["items"]}
    assert look("supervision") == said("status")
    assert look("supervision/deaths") == {**said("process", "deaths"), "next": None}
    assert look("supervision/deaths?duty=broken") == {**said("process", "deaths", "broken"), "next": None}
    shown = look("supervision")
    assert {duty["name"]: duty["state"] for duty in shown["items"]} == {"worker": "ready", "broken": "failed"}
    assert (shown["term"]["is_held"], shown["is_ready"]) == (True, False)
    printed = {"lines": [f"ready {first.process_id}"]}
    wait_until(lambda: look("supervision/duties/worker/logs") == printed, what="what it has printed")
    assert look("supervision/duties/broken/logs?tail=1") == {"lines": ["no luck"]}

    restarted = operator.ask("/supervision/duties/worker/restart", {"why": "try"}).json()
    assert (restarted["name"], restarted["has_coordinator"]) == ("worker", True)
    assert (restarted["who"], restarted["why"]) == ("operator", "try")
    kept.wait_for("worker", DutyState.READY, 2)
    assert operator.ask("/supervision/duties/broken/stop", {"why": "hopeless"}).json()["state"] == "stopped"
    operator.ask("/supervision/duties/worker/stop", {"why": "enough"})
    kept.wait_for("worker", DutyState.STOPPED)
    assert look("supervision/duties/worker")["running"]["state"] == "stopped"
    assert "ended in order" in look("supervision/duties/worker/logs")["lines"]
    stopped = [row["id"] for row in look("processes?state=stopped")["items"]]
    assert first.process_id in stopped
    assert stopped == [row["id"] for row in look("processes")["items"] if row["state"] == "stopped"]
    assert trail(kept.runtime) == [
        ("operator", "stop duty", "worker", "done"),
        ("operator", "stop duty", "broken", "done"),
        ("operator", "restart duty", "worker", "done"),
    ]


def test_wishes_without_a_coordinator(make_client: MakeClient, wanted: Runtime) -> None:
    """They are written down with who and why; the answer says that nobody sees to them yet."""
    client = make_client("operator")
    stopped = client.ask("/supervision/duties/worker/stop", {"why": "enough"})
    assert stopped.status_code == 200
    shown = stopped.json()
    assert (shown["state"], shown["wish"], shown["who"], shown["why"]) == ("stopped", "stop", "operator", "enough")
    assert (shown["has_coordinator"], shown["running"], shown["deaths"]) == (False, None, [])
    assert "hunter2" not in stopped.text
    again = client.ask("/supervision/duties/worker/restart", {"why": "after all"}, idempotency_key="k1")
    assert (again.json()["state"], again.json()["wish"]) == ("waiting", "run")
    assert (
        client.ask("/supervision/duties/worker/restart", {"why": "after all"}, idempotency_key="k1").text == again.text
    )
    told = [(row["subject"], row["who"], row["why"]) for row in events(wanted.database, "duty_changed_by_hand")]
    assert told[2:] == [("worker", "operator", "enough"), ("worker", "operator", "after all")]
    assert [row[1:] for row in trail(wanted)] == [
        ("restart duty", "worker", "done"),
        ("stop duty", "worker", "done"),
    ]


def test_deaths_page_by_page(make_client: MakeClient, wanted: Runtime) -> None:
    died(wanted, *(("worker", "far")[n % 2] for n in range(7)))
    client = make_client("viewer")

    def walked(query: str) -> list[list[int]]:
        pages: list[list[int]] = []
        before = ""
        while True:
            page = client.get(f"{API}/supervision/deaths?{query}{before}").json()
            pages.append([item["launch"] for item in page["items"]])
            if page["next"] is None:
                return pages
            before = f"&before={page['next']}"

    assert walked("limit=3") == [[7, 6, 5], [4, 3, 2], [1]]
    assert walked("limit=7") == [[7, 6, 5, 4, 3, 2, 1]]
    assert walked("limit=2&duty=far") == [[6, 4], [2]]
    shown = client.get(f"{API}/supervision/deaths?limit=1").json()["items"][0]
    assert (shown["how"], shown["exit_code"], shown["trouble"]) == ("exit", 3, "no luck 7")


def test_nothing_has_to_run(make_client: MakeClient, runtime: Runtime) -> None:
    client = make_client("viewer")
    shown = client.get(f"{API}/supervision").json()
    assert (shown["items"], shown["is_ready"], shown["term"]["is_held"]) == ([], False, False)
    assert client.get(f"{API}/supervision/deaths").json() == {"items": [], "next": None}
    assert client.get(f"{API}/processes").json() == {"items": []}
    me = runtime.process()
    assert [row["id"] for row in client.get(f"{API}/processes?state=alive").json()["items"]] == [me.id]
    assert client.get(f"{API}/processes?state=dead").json() == {"items": []}
    for name in (me.id, "towpath"):
        assert client.get(f"{API}/processes/{name}").json()["id"] == me.id


REFUSED = [
    ("GET", "processes/nope", 404, "unknown_duty"),
    ("GET", "processes?state=gone", 422, "not_valid"),
    ("GET", "processes/a%00b", 422, "bad_value"),
    ("GET", f"processes/{'x' * 301}", 422, "not_valid"),
    ("GET", "supervision/duties/nope", 404, "unknown_duty"),
    ("GET", "supervision/duties/nope/logs", 404, "unknown_duty"),
    ("GET", "supervision/duties/far/logs", 422, "refused"),
    ("GET", "supervision/duties/worker/logs?tail=0", 422, "not_valid"),
    ("GET", "supervision/duties/worker/logs?tail=1001", 422, "not_valid"),
    ("GET", "supervision/deaths?duty=nope", 404, "unknown_duty"),
    ("GET", "supervision/deaths?limit=0", 422, "not_valid"),
    ("GET", f"supervision/deaths?before={2**63}", 422, "not_valid"),
    ("POST", "supervision/duties/nope/stop", 404, "unknown_duty"),
    ("POST", "supervision/duties/nope/restart", 404, "unknown_duty"),
]


def test_what_cannot_be_done_is_said(make_client: MakeClient, wanted: Runtime) -> None:
    client, before = make_client("operator"), rows(wanted.database, "duty")
    for method, path, status, code in REFUSED:
        answer = client.request(method, f"{API}/{path}", json={"why": "x"} if method == "POST" else None)
        assert (answer.status_code, error_of(answer)["code"]) == (status, code), (path, answer.text)
    for body in ({}, {"why": ""}, {"why": "x", "who": "somebody else"}):
        answer = client.ask("/supervision/duties/worker/stop", body)
        assert (answer.status_code, error_of(answer)["code"]) == (422, "not_valid")
    assert rows(wanted.database, "duty") == before
    assert {row[3] for row in trail(wanted)} == {"refused"}
    # It was never started here: it has written nothing.
    assert client.get(f"{API}/supervision/duties/worker/logs").json() == {"lines": []}


def test_a_log_whose_launcher_is_away(make_client: MakeClient, runtime: Runtime) -> None:
    """That is no fault of ours: a Docker engine that does not answer, and a launcher that this process has not."""
    specs = {name: DutySpec(("sleep", "600"), launcher=name, image="x") for name in ("docker", "kubernetes")}
    wanted = [NewDuty(name, "command", HOST, spec) for name, spec in specs.items()]
    runtime.duties.want(wanted, who="ann", why="x")
    by_hand(runtime.database, "update duty set handle = name || '/abc'")
    client = make_client("viewer")
    away, unknown = (client.get(f"{API}/supervision/duties/{name}/logs") for name in specs)
    assert (away.status_code, error_of(away)["code"]) == (503, "launcher_away")
    assert away.headers["retry-after"]
    assert (unknown.status_code, error_of(unknown)["code"]) == (422, "refused")
    assert "'kubernetes'" in error_of(unknown)["message"]


def test_who_may_only_look_changes_nothing(make_client: MakeClient, wanted: Runtime) -> None:
    viewer, narrow = make_client("viewer"), make_client("operator", ["read", "queue:write"])
    before = rows(wanted.database, "duty"), len(events(wanted.database, "duty_changed_by_hand"))
    for what in ("stop", "restart"):
        for client in (viewer, narrow):
            answer = client.ask(f"/supervision/duties/worker/{what}")
            assert (answer.status_code, error_of(answer)["code"]) == (403, "not_allowed")
    assert (rows(wanted.database, "duty"), len(events(wanted.database, "duty_changed_by_hand"))) == before
    assert [(row[0], row[3]) for row in trail(wanted)] == [("operator", "refused"), ("viewer", "refused")] * 2
    keeper = make_client("operator", ["process:write"])
    assert keeper.ask("/supervision/duties/worker/stop").status_code == 200
    assert keeper.get(f"{API}/supervision").status_code == 403


def test_who_may_not_see_all_fields_sees_no_last_words(
    make_runtime: Callable[..., Runtime], settings: dict[str, Any]
) -> None:
    """What a process writes may quote a record."""
    runtime = make_runtime(**settings, desk={"masked": {"shop": ["city"]}, "sees_masked": "admin"})
    runtime.duties.want([NewDuty("worker", "command", HOST, DutySpec(("true",)))], who="ann", why="begin")
    died(runtime, "worker")
    by_hand(runtime.database, "update duty set trouble = 'no luck 0'")
    masked, admin = Client(runtime, make_key(runtime, "operator")), Client(runtime, make_key(runtime, "admin"))
    for path in ("supervision", "supervision/deaths", "supervision/duties/worker", "processes/worker"):
        assert "no luck" in admin.get(f"{API}/{path}").text
        answer = masked.get(f"{API}/{path}")
        assert (answer.status_code, "no luck" in answer.text, MASK in answer.text) == (200, False, True)
    assert "no luck" not in masked.ask("/supervision/duties/worker/stop").text
    answer = masked.get(f"{API}/supervision/duties/worker/logs")
    assert (answer.status_code, error_of(answer)["code"]) == (403, "fields_masked")
