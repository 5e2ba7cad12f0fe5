"""Actors and schedules over HTTP: as the command line has them, and every change in somebody's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.actors import Count, Counter, Do, Doer, Gate, Nap, Sleeper, Theatre
from tests.support.cli import CommandLine
from tests.support.http import API, Client, MakeClient, error_of, make_key
from tests.support.same_json import printed
from tests.support.sweep import sweep
from tests.support.tables import events, rows

from towpath.actors import End
from towpath.actors.instance import Phase
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

ACTORS, SCHEDULES = f"{API}/actors", f"{API}/schedules"
CODE = "tests.support.actors"
WHY = {"why": "a test"}
EVERY_DAY: dict[str, Any] = {"name": "nightly", "actor": "counter", "when": {"daily": "03:30"}, **WHY}


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime]) -> Runtime:
    return make_runtime(actors={"modules": [CODE]})


@pytest.fixture
def operator(make_client: MakeClient) -> Client:
    return make_client("operator")


@pytest.fixture
def viewer(make_client: MakeClient) -> Client:
    return make_client("viewer")


@pytest.fixture
def configured(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command line on the same database, with the same modules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOWPATH_ACTORS__MODULES", f'["{CODE}"]')


def explode(turn: object) -> None:
    raise ValueError("no such page")


def failed(theatre: Theatre, instance: str = "main") -> None:
    Doer.actions["explode"] = explode
    theatre.actors.start(Doer, Do("explode"), instance=instance)
    assert theatre.rest_of("doer", instance).phase is Phase.FAILED


def asleep(theatre: Theatre, instance: str = "main") -> None:
    theatre.actors.start(Sleeper, Nap(3600), instance=instance)
    wait_until(lambda: _phase(theatre, "sleeper", instance) is Phase.SLEEPING, timeout_s=30)


def _phase(theatre: Theatre, actor: str, instance: str) -> Phase | None:
    found = [each.phase for each in theatre.actors.instances(actor=actor) if each.instance == instance]
    return found[0] if found else None


def trail(runtime: Runtime) -> list[tuple[str, str, str, str]]:
    """Who asked for what, about what, and what came of it."""
    return [(row["who"], row["what"], row["subject"], row["outcome"]) for row in rows(runtime.database, "access_audit")]


# Looking


def test_classes(viewer: Client, operator: Client, theatre: Theatre, command: CommandLine, configured: None) -> None:
    failed(theatre)
    theatre.actors.enable("parent", False, who="ann", why="x")
    assert operator.ask("/schedules", {**EVERY_DAY, "fields": {"upto": 3}}).status_code == 201
    found = viewer.get(f"{ACTORS}/classes").json()
    assert found["broken"] == []
    items = {item["name"]: item for item in found["items"]}
    for item in printed(command, "actor", "list")["items"]:
        assert item.items() <= items[item["name"]].items()
    counter = items["counter"]
    assert (counter["about"], counter["shape"]["first"]) == ("Counts.", "Count")
    [count] = [state for state in counter["shape"]["states"] if state["name"] == "Count"]
    assert count["template"] == {"upto": 0, "n": 0}
    assert counter["schedules"] == printed(command, "actor", "schedule", "list")["items"]
    assert items["doer"]["instances"]["failed"] == 1
    assert not counter["may_start"]
    may = {item["name"]: item["may_start"] for item in operator.get(f"{ACTORS}/classes").json()["items"]}
    assert (may["counter"], may["parent"]) == (True, False)
    assert viewer.get(f"{ACTORS}/counter").json() == counter
    assert error_of(viewer.get(f"{ACTORS}/nobody"))["code"] == "unknown_actor"


def test_a_module_that_cannot_be_imported_is_told_of_and_hides_nothing(
    make_runtime: Callable[..., Runtime], tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    runtime = make_runtime(actors={"modules": [str(tmp_path / "broken.py"), CODE, "no.such.module"]})
    client = Client(runtime, make_key(runtime, "operator"))
    found = client.get(f"{ACTORS}/classes").json()
    assert {item["name"] for item in found["items"]} >= {"counter", "sleeper"}
    assert [each["module"] for each in found["broken"]] == [str(tmp_path / "broken.py"), "no.such.module"]
    assert "nothing_of_that_name" in found["broken"][0]["error"]
    assert client.get("/healthz").status_code == 200
    assert runtime.actors.known() == [], "a look changes nothing"
    assert client.ask("/actors/counter/main/start", {"fields": {"upto": 1}, **WHY}).status_code == 200


def test_a_class_whose_code_is_elsewhere(make_runtime: Callable[..., Runtime]) -> None:
    elsewhere = make_runtime()
    elsewhere.actors.register(Counter)
    client = Client(elsewhere, make_key(elsewhere, "operator"))
    [item] = client.get(f"{ACTORS}/classes").json()["items"]
    assert (item["name"], item["is_here"], item["shape"]["first"]) == ("counter", False, "Count")
    refused = client.ask("/actors/counter/main/start", {"fields": {"downto": 1}, **WHY})
    assert (refused.status_code, error_of(refused)["code"]) == (422, "bad_state")
    assert client.ask("/actors/counter/main/start", {"fields": {"upto": 1}, **WHY}).status_code == 200


def test_instances_come_in_pages(viewer: Client, runtime: Runtime, command: CommandLine, configured: None) -> None:
    for name in ("a", "b", "c/d"):
        runtime.actors.start(Counter, Count(1), instance=name)
    runtime.actors.start(Sleeper, Nap(1))
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = viewer.get(ACTORS, params={"limit": 2, "after": after}).json()
        seen += [item["name"] for item in page["items"]]
        after = page["next"]
    assert seen == ["counter:a", "counter:b", "counter:c/d", "sleeper:main"]
    found = viewer.get(ACTORS, params={"actor": "counter"}).json()
    assert found == printed(command, "actor", "list", "counter")
    assert viewer.get(ACTORS, params={"phase": "failed"}).json() == {"items": [], "next": None}
    assert viewer.get(ACTORS, params={"actor": "nobody"}).json() == {"items": [], "next": None}
    assert viewer.get(ACTORS, params={"phase": "lost"}).status_code == 422


def test_one_instance(viewer: Client, theatre: Theatre, command: CommandLine, configured: None) -> None:
    failed(theatre, "a/b")
    shown = json.loads(viewer.get(f"{ACTORS}/doer/a/b").text.replace('+00:00"', 'Z"'))
    told = printed(command, "actor", "show", "doer:a/b")
    assert shown["actor"] == told["actor"]
    assert shown["instance"] == {**told["instance"], "is_masked": False}
    instance = shown["instance"]
    assert (instance["phase"], instance["failed_in"]["state"]) == ("failed", "Do")
    assert instance["history"][0]["payload"]["reason"].endswith("ValueError: no such page")
    assert len(viewer.get(f"{ACTORS}/doer/a/b", params={"last": 1}).json()["instance"]["history"]) == 1
    for path in ("doer/nobody", "nobody/main"):
        answer = viewer.get(f"{ACTORS}/{path}")
        assert (answer.status_code, error_of(answer)["code"]) == (404, "unknown_actor")


def test_who_may_not_see_all_of_the_records_sees_no_fields(
    make_runtime: Callable[..., Runtime], theatre: Theatre
) -> None:
    failed(theatre)
    runtime = make_runtime(desk={"masked": {"shop": ["email"]}}, actors={"modules": [CODE]})
    masked = Client(runtime, make_key(runtime, "viewer"))
    answer = masked.get(f"{ACTORS}/doer/main")
    assert answer.json()["instance"]["is_masked"]
    assert answer.json()["instance"]["failed_in"]["state"] == "Do"
    for text in (answer.text, masked.get(ACTORS).text):
        assert "no such page" not in text
        assert "explode" not in text
    assert "no such page" in Client(runtime, make_key(runtime, "admin")).get(ACTORS).text


def test_the_graph_with_the_state_that_an_instance_is_in(
    viewer: Client, theatre: Theatre, command: CommandLine, configured: None
) -> None:
    asleep(theatre)
    plain = viewer.get(f"{ACTORS}/sleeper/graph").json()
    assert printed(command, "actor", "graph", "sleeper").items() <= plain.items()
    assert plain["mermaid"] + "\n" == command.ok("actor", "graph", "sleeper", "--mermaid").out
    assert plain["svg"] == command.ok("actor", "graph", "sleeper", "--svg", "-").out
    lit = viewer.get(f"{ACTORS}/sleeper/graph", params={"instance": "main"}).json()
    assert lit["lit"] == "Awake"
    assert lit["mermaid"].endswith("    class Awake lit")
    assert lit["svg"].count('class="box lit"') == 1
    assert viewer.get(f"{ACTORS}/sleeper/graph", params={"instance": "x"}).status_code == 404
    assert viewer.get(f"{ACTORS}/nobody/graph").status_code == 404


# Changing


def test_start(operator: Client, theatre: Theatre, runtime: Runtime) -> None:
    answer = operator.ask("/actors/counter/x/start", {"fields": {"upto": 2}, "why": "needed"}).json()
    run = theatre.rest_of("counter", "x").run_id
    assert answer == {"run": run, "actor": "counter", "instance": "x", "state": "Count"}
    [event] = events(runtime.database, "actor_started_by_hand")
    assert (event["subject"], event["who"], event["why"]) == ("counter:x", "operator", "needed")
    assert trail(runtime)[-1] == ("operator", "start actor", "counter:x", "done")
    operator.ask("/actors/sleeper/y/start", {"state": "Awake", **WHY})
    assert theatre.rest_of("sleeper", "y").phase is Phase.ENDED


def test_a_start_is_made_once_under_one_key(operator: Client, runtime: Runtime) -> None:
    body = {"fields": {"upto": 2}, **WHY}
    answers = [operator.ask("/actors/counter/main/start", body, idempotency_key="k").json() for _ in range(2)]
    assert answers[0] == answers[1]
    assert [each.id for each in runtime.actors.history("counter")] == [answers[0]["run"]]


@sweep(
    ("path", "body", "status", "code"),
    [
        ("counter/main/start", {"fields": {"downto": 1}}, 422, "bad_state"),
        ("counter/main/start", {"fields": {"upto": "many"}}, 422, "bad_state"),
        ("counter/main/start", {"fields": {}}, 422, "bad_state"),
        ("counter/main/start", {"state": "Fly"}, 422, "bad_state"),
        ("counter/main/start", {"fields": [1]}, 422, "not_valid"),
        ("counter/main/start", {"payload": {}}, 422, "not_valid"),
        ("counter/ma in/start", {"fields": {"upto": 1}}, 422, "bad_name"),
        ("nobody/main/start", {}, 404, "unknown_actor"),
        ("nobody/enable", {}, 404, "unknown_actor"),
        ("counter/main/restart", {}, 404, "unknown_actor"),
        ("counter/main/restart", {"fields": {"upto": 1}}, 422, "not_valid"),
        ("counter/main/abort", {}, 404, "unknown_actor"),
        ("counter/main/wake", {}, 404, "unknown_actor"),
    ],
)
def test_what_is_refused(
    path: str, body: dict[str, Any], status: int, code: str, operator: Client, runtime: Runtime
) -> None:
    answer = operator.ask(f"/actors/{path}", {**body, **WHY})
    assert (answer.status_code, error_of(answer)["code"]) == (status, code)
    assert rows(runtime.database, "actor_instance") == []
    assert trail(runtime)[-1][3] == "refused"


@pytest.mark.parametrize(
    "path", ["counter/x/start", "doer/main/restart", "doer/main/abort", "sleeper/main/wake", "counter/disable"]
)
def test_a_viewer_changes_nothing(path: str, viewer: Client, theatre: Theatre, runtime: Runtime) -> None:
    failed(theatre)
    asleep(theatre)
    before = rows(runtime.database, "actor_instance"), rows(runtime.database, "actor")
    answer = viewer.ask(f"/actors/{path}", WHY)
    assert (answer.status_code, error_of(answer)["code"]) == (403, "not_allowed")
    assert (rows(runtime.database, "actor_instance"), rows(runtime.database, "actor")) == before
    assert trail(runtime)[-1][3] == "refused"


def test_a_run_that_has_failed_is_started_again(operator: Client, theatre: Theatre, runtime: Runtime) -> None:
    failed(theatre)
    Doer.actions["explode"] = lambda turn: End("mended")
    answer = operator.ask("/actors/doer/main/restart").json()
    wait_until(lambda: _phase(theatre, "doer", "main") is Phase.ENDED, timeout_s=30)
    assert (answer["run"], answer["state"]) == (theatre.actors.instance("doer").run_id, "Do")
    assert trail(runtime)[-1] == ("operator", "restart actor", "doer:main", "done")
    refused = operator.ask("/actors/doer/main/restart")
    assert (refused.status_code, error_of(refused)["code"]) == (409, "not_failed")
    assert operator.ask("/actors/doer/main/restart", {"state": "Do", **WHY}).status_code == 409


def test_or_from_a_state_that_is_named(operator: Client, theatre: Theatre) -> None:
    failed(theatre)
    Doer.actions["other"] = lambda turn: End("by another way")
    body = {"state": "Do", "fields": {"what": "other"}, **WHY}
    assert operator.ask("/actors/doer/main/restart", body).json()["state"] == "Do"
    wait_until(lambda: _phase(theatre, "doer", "main") is Phase.ENDED, timeout_s=30)
    assert theatre.messages("doer")[-1].payload == {"result": "by another way"}


def test_abort(operator: Client, theatre: Theatre, runtime: Runtime) -> None:
    gate = Gate()
    Doer.actions["hold"] = gate
    theatre.actors.start(Doer, Do("hold"))
    assert gate.begun.wait(30)
    aborted = operator.ask("/actors/doer/main/abort", {"why": "too long"}).json()
    assert aborted["phase"] == "running"
    assert aborted["abort"].endswith("operator: too long")
    gate.go_on.set()
    assert theatre.rest_of("doer").reason == aborted["abort"]
    assert trail(runtime)[-1] == ("operator", "abort actor", "doer:main", "done")
    again = operator.ask("/actors/doer/main/abort")
    assert (again.status_code, error_of(again)["code"]) == (409, "not_running")


def test_wake(operator: Client, theatre: Theatre, runtime: Runtime) -> None:
    asleep(theatre)
    assert operator.ask("/actors/sleeper/main/wake").json()["name"] == "sleeper:main"
    assert theatre.rest_of("sleeper").phase is Phase.ENDED
    assert trail(runtime)[-1] == ("operator", "wake actor", "sleeper:main", "done")
    again = operator.ask("/actors/sleeper/main/wake")
    assert (again.status_code, error_of(again)["code"]) == (409, "not_asleep")


def test_classes_are_switched(operator: Client, viewer: Client, runtime: Runtime) -> None:
    assert operator.ask("/actors/counter/disable").json() == {
        "actor": "counter",
        "is_enabled": False,
        "has_changed": True,
    }
    assert not operator.ask("/actors/counter/disable").json()["has_changed"]
    assert not viewer.get(f"{ACTORS}/counter").json()["is_enabled"]
    assert operator.ask("/actors/counter/enable").json()["has_changed"]
    assert [row[1] for row in trail(runtime)] == ["disable actor", "disable actor", "enable actor"]
    assert [row["who"] for row in events(runtime.database, "actor_switched_by_hand")] == ["operator", "operator"]


# Schedules


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ({"every_s": 900}, "every 15 min"),
        ({"every_s": 5400, "since": "run"}, "every 90 min after the last run"),
        ({"daily": "3:05", "zone": "Europe/Berlin"}, "daily at 03:05 Europe/Berlin"),
        ({"window": "22-6"}, "once between 22:00 and 06:00 UTC"),
    ],
)
def test_when(when: dict[str, Any], said: str, operator: Client) -> None:
    added = operator.ask("/schedules", {**EVERY_DAY, "when": when, "fields": {"upto": 1}})
    assert (added.status_code, added.json()["when"]) == (201, said)
    assert added.json()["next_at"] is not None


def test_schedules_are_added_changed_switched_and_deleted(
    operator: Client, viewer: Client, runtime: Runtime, command: CommandLine, configured: None
) -> None:
    added = operator.ask("/schedules", {**EVERY_DAY, "fields": {"upto": 3}, "instance": "n"}).json()
    assert (added["payload"], added["outcome"]) == ({"upto": 3, "n": 0}, "none")
    assert viewer.get(SCHEDULES).json() == printed(command, "actor", "schedule", "list")
    assert (
        viewer.get(f"{SCHEDULES}/nightly").json() == added == printed(command, "actor", "schedule", "show", "nightly")
    )
    assert viewer.get(SCHEDULES, params={"actor": "sleeper"}).json() == {"items": []}
    changed = operator.ask("/schedules/nightly/change", {"when": {"every_s": 60}, "fields": {"upto": 4}, **WHY}).json()
    assert (changed["when"], changed["payload"], changed["instance"]) == ("every 1 min", {"upto": 4, "n": 0}, "n")
    assert operator.ask("/schedules/nightly/disable").json()["has_changed"]
    assert viewer.get(f"{SCHEDULES}/nightly").json()["next_at"] is None
    assert operator.ask("/schedules/nightly/enable").json()["is_enabled"]
    assert operator.ask("/schedules/nightly/delete").json() == {"name": "nightly"}
    assert viewer.get(SCHEDULES).json() == {"items": []}
    what = ["add", "change", "disable", "enable", "delete"]
    assert trail(runtime) == [("operator", f"{each} schedule", "nightly", "done") for each in what]
    told = events(runtime.database, "schedule_changed_by_hand")
    assert {(row["who"], row["why"]) for row in told} == {("operator", "a test")}


@sweep(
    ("path", "body", "status", "code"),
    [
        ("", {**EVERY_DAY, "actor": "nobody"}, 404, "unknown_actor"),
        ("", {**EVERY_DAY, "fields": {"downto": 1}}, 422, "bad_state"),
        ("", {**EVERY_DAY, "state": "Fly"}, 422, "bad_state"),
        ("", {**EVERY_DAY, "name": "a b", "fields": {"upto": 1}}, 422, "bad_name"),
        ("", {**EVERY_DAY, "when": {}}, 422, "not_valid"),
        ("", {**EVERY_DAY, "when": {"daily": "3:30", "every_s": 60}}, 422, "not_valid"),
        ("", {**EVERY_DAY, "when": {"every_s": 60, "zone": "UTC"}}, 422, "not_valid"),
        ("", {**EVERY_DAY, "when": {"daily": "25:00"}, "fields": {"upto": 1}}, 422, "bad_value"),
        ("", {**EVERY_DAY, "when": {"window": "3-3"}, "fields": {"upto": 1}}, 422, "bad_value"),
        ("", {**EVERY_DAY, "when": {"daily": "3:00", "zone": "Moon/Sea"}, "fields": {"upto": 1}}, 422, "bad_value"),
        ("/none/change", {"when": {"every_s": 60}, **WHY}, 404, "unknown_schedule"),
        ("/none/change", WHY, 422, "not_valid"),
        ("/none/enable", WHY, 404, "unknown_schedule"),
        ("/none/delete", WHY, 404, "unknown_schedule"),
    ],
)
def test_schedules_that_are_refused(
    path: str, body: dict[str, Any], status: int, code: str, operator: Client, runtime: Runtime
) -> None:
    answer = operator.ask(f"/schedules{path}", body)
    assert (answer.status_code, error_of(answer)["code"]) == (status, code)
    assert rows(runtime.database, "actor_schedule") == []
    assert trail(runtime)[-1][3] == "refused"


def test_a_name_is_taken_and_a_viewer_changes_nothing(operator: Client, viewer: Client, runtime: Runtime) -> None:
    body = {**EVERY_DAY, "fields": {"upto": 1}}
    assert operator.ask("/schedules", body).status_code == 201
    assert error_of(operator.ask("/schedules", body))["code"] == "schedule_exists"
    before = rows(runtime.database, "actor_schedule")
    for path in ("", "/nightly/change", "/nightly/disable", "/nightly/delete"):
        assert viewer.ask(f"/schedules{path}", body).status_code == 403
    assert rows(runtime.database, "actor_schedule") == before
    assert viewer.get(f"{SCHEDULES}/none").status_code == 404
