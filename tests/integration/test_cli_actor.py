"""`towpath actor`: what people and programs are shown of actors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.actors import Count, Counter, Do, Doer, Gate, Nap, Sleeper, Theatre
from tests.support.cli import CommandLine, on_terminal
from tests.support.sweep import sweep
from tests.support.tables import by_hand

from towpath.actors import Wait
from towpath.actors.instance import Phase
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

BY = ("--why", "a good reason", "--who", "ann")


@pytest.fixture(autouse=True)
def modules(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The settings of the test's database, and the modules with its actors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOWPATH_ACTORS__MODULES", '["tests.support.actors"]')


def explode(turn: object) -> None:
    raise ValueError("no such page")


def fail(theatre: Theatre, instance: str = "main") -> None:
    Doer.actions["explode"] = explode
    theatre.actors.start(Doer, Do("explode"), instance=instance)
    assert theatre.rest_of("doer", instance).phase is Phase.FAILED


# Lists


def test_classes(command: CommandLine, theatre: Theatre) -> None:
    fail(theatre)
    theatre.actors.start(Sleeper, Nap(3600), instance="a")
    theatre.actors.start(Sleeper, Nap(3600), instance="b")
    wait_until(lambda: theatre.actors.browser().counts().get("sleeper") == {Phase.SLEEPING: 2}, timeout_s=30)
    theatre.actors.enable("parent", False, who="ann", why="x")
    items = {item["name"]: item for item in command.ok("actor", "list", "--json").json["items"]}
    assert list(items) == ["asker", "counter", "doer", "parent", "sleeper"]
    assert items["sleeper"]["instances"] == {phase: 2 if phase == "sleeping" else 0 for phase in Phase}
    assert items["doer"]["instances"]["failed"] == 1
    assert [name for name, item in items.items() if not item["is_enabled"]] == ["parent"]
    assert items["counter"] == {
        "name": "counter",
        "about": "Counts.",
        "is_enabled": True,
        "is_here": True,
        "instances": dict.fromkeys(Phase, 0),
    }
    lines = command.ok("actor", "list").lines
    assert lines[0].split() == ["actor", "enabled", "instances", "about"]
    assert lines[-1].split(maxsplit=4) == ["sleeper", "yes", "2", "sleeping", "Sleeps."]


def test_a_class_that_nobody_has_run_is_listed(command: CommandLine, runtime: Runtime) -> None:
    names = [item["name"] for item in command.ok("actor", "list", "--json").json["items"]]
    assert names == ["asker", "counter", "doer", "parent", "sleeper"]
    assert runtime.actors.known() == [], "a look changes nothing"


def test_a_class_whose_code_is_elsewhere(
    command: CommandLine, theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWPATH_ACTORS__MODULES", "[]")
    [item] = [each for each in command.ok("actor", "list", "--json").json["items"] if each["name"] == "counter"]
    assert (item["about"], item["is_here"]) == ("Counts.", False)


def test_a_module_that_is_broken_hides_nothing_else(
    command: CommandLine, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWPATH_ACTORS__MODULES", '["nowhere_at_all", "tests.support.actors"]')
    ran = command.ok("actor", "list", "--json")
    assert len(ran.json["items"]) == 5
    assert ran.err.startswith("warning: ")
    assert "'nowhere_at_all'" in ran.err


def test_instances_by_pages(command: CommandLine, theatre: Theatre) -> None:
    for n in range(5):
        theatre.actors.start(Counter, Count(0), instance=f"c{n}")
        theatre.rest_of("counter", f"c{n}")
    fail(theatre)
    names: list[str] = []
    after: list[str] = []
    while True:
        page = command.ok("actor", "list", "--instances", "--limit", 2, *after, "--json").json
        names += [item["name"] for item in page["items"]]
        if page["next"] is None:
            break
        after = ["--after", page["next"]]
    assert names == [*(f"counter:c{n}" for n in range(5)), "doer:main"]
    assert "--after counter:c1" in command.ok("actor", "list", "counter", "--limit", 2).lines[-1]
    [item] = command.ok("actor", "list", "--phase", "failed", "--json").json["items"]
    assert (item["name"], item["phase"], item["state"]) == ("doer:main", "failed", "Failed")
    assert item["reason"] == "Do: ValueError: no such page"
    assert command.ok("actor", "list", "asker", "--json").json == {"items": [], "next": None}


@pytest.mark.parametrize("width", [80, 120])
def test_instances_fit_a_terminal(
    command: CommandLine, theatre: Theatre, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(theatre, "i" * 90)
    on_terminal(monkeypatch, width)
    for words in (["list"], ["list", "--instances"]):
        lines = command.ok("actor", *words).lines
        assert max(map(len, lines)) <= width
    assert "Do: ValueError" in lines[-1]


# One of them


def test_show_of_a_failed_one(command: CommandLine, theatre: Theatre) -> None:
    fail(theatre)
    out = command.ok("actor", "show", "doer:main").out
    failed = theatre.messages("doer")[1]
    assert "Do: ValueError: no such page\n" in out
    assert failed.id in out
    assert "towpath actor start doer:main --again" in out
    assert '{\n  "what": "explode"\n}\n' in out
    assert "in explode\n" in out
    assert "ValueError: no such page\n" in out
    shown = command.ok("actor", "show", "doer:main", "--json").json["instance"]
    assert shown["failed_in"] == {"state": "Do", "message": failed.id}
    assert [(each["function"], each["state"]) for each in shown["history"]] == theatre.history("doer")[::-1]
    assert shown["events"][0]["kind"] == "actor_failed"
    assert len(command.ok("actor", "show", "doer:main", "--last", 1, "--json").json["instance"]["history"]) == 1


def test_show_of_a_waiting_parent_and_its_child(command: CommandLine, theatre: Theatre) -> None:
    def call(turn: Any) -> Wait:
        child = turn.call(Sleeper, Nap(3600), instance="child", is_tied=True)
        return Wait([child, turn.send("work", "ASK")], Do("tell"), timeout_s=3600)

    theatre.runtime.queue.inbox("work")
    Doer.actions["call"] = call
    theatre.actors.start(Doer, Do("call"))
    wait_until(lambda: theatre.actors.browser().counts().get("sleeper") == {Phase.SLEEPING: 1}, timeout_s=30)
    wait_until(lambda: theatre.actors.instance("doer").phase is Phase.WAITING)
    shown = command.ok("actor", "show", "doer", "--json").json
    assert shown["actor"]["about"].startswith("Does what the test says")
    parent = shown["instance"]
    assert (parent["phase"], parent["state"], parent["fields"]) == ("waiting", "Do", {"what": "tell"})
    assert {(each["inbox"], each["is_answered"]) for each in parent["waits_for"]} == {
        ("actor:sleeper:child", False),
        ("work", False),
    }
    assert [each["name"] for each in parent["children"]] == ["sleeper:child"]
    assert parent["due_at"] is not None
    child = command.ok("actor", "show", "sleeper:child", "--json").json["instance"]
    assert (child["parent"], child["is_tied"], child["resume"]) == ("doer:main", True, "retry")
    out = command.ok("actor", "show", "doer:main").out
    assert "(sleeper:child, ACK)" in out
    assert "(work, NEW)" in out
    assert "(fail)\n" in out
    assert "doer:main" in command.ok("actor", "show", "sleeper:child").out


def test_show_of_a_running_one(command: CommandLine, theatre: Theatre) -> None:
    gate = Gate()
    Doer.actions["wait"] = gate
    theatre.actors.start(Doer, Do("wait"))
    assert gate.begun.wait(30)
    out = command.ok("actor", "show", "doer:main").out
    gate.go_on.set()
    assert theatre.runtime.process().id in out
    assert "(fail)\n" in out


def test_show_of_a_start_that_nobody_takes(command: CommandLine, runtime: Runtime) -> None:
    command.ok("actor", "start", "counter", "--payload", '{"upto": 1}', *BY)
    out = command.ok("actor", "show", "counter:main").out
    assert "idle\n" in out
    assert "towpath actor run" in out


def test_show_of_a_class_without_instances(command: CommandLine, theatre: Theatre) -> None:
    lines = command.ok("actor", "show", "counter").lines
    assert lines[-1].startswith("Count ")
    assert lines[-1].endswith("Counts up to `upto`.")
    assert command.ok("actor", "show", "counter", "--json").json["instance"] is None


def test_show_after_the_messages_are_gone(command: CommandLine, theatre: Theatre) -> None:
    fail(theatre)
    theatre.host.stop()
    by_hand(theatre.runtime.database, "delete from message")
    shown = command.ok("actor", "show", "doer:main", "--json").json["instance"]
    assert (shown["reason"], shown["failed_in"], shown["fields"]) == ("Do: ValueError: no such page", None, None)
    command.ok("actor", "show", "doer:main")
    ran = command("actor", "start", "doer", "--again", *BY)
    ran.refused(1, "--state")


@sweep(
    ("words", "code", "said"),
    [
        (["show", "nope"], 1, "'nope'"),
        (["show", "counter:nope"], 1, "counter:nope"),
        (["list", "nope"], 1, "'nope'"),
        (["show", "counter:"], 2, "'counter:'"),
        (["list", "--phase", "dozing"], 2, "idle, ready, running"),
        (["graph", "nope"], 1, "'nope'"),
        (
            ["template", "counter", "--state", "Gone"],
            1,
            "'Gone'",
        ),
        (["graph", "counter", "--mermaid", "--json"], 2, "one of them"),
        (["graph", "counter", "--svg", "/nowhere/x.svg"], 2, "/nowhere/x.svg"),
        (["run"], 2, "modules"),
        (["run", "nowhere_at_all"], 1, "'nowhere_at_all'"),
    ],
)
def test_wrong_looks(
    words: list[str], code: int, said: str, command: CommandLine, theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        if words == ["run"]:
            patch.setenv("TOWPATH_ACTORS__MODULES", "[]")
        command("actor", *words).refused(code, said)


# Drawings and templates: without a database


def test_graph_and_template_need_no_database(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TOWPATH_DATABASE__URL", "sqlite:///none.db")
    monkeypatch.delenv("TOWPATH_DATABASE__SCHEMA", raising=False)
    assert command.ok("actor", "graph", "sleeper").lines[2:5] == [
        "▶ Nap (fail)",
        "  └─ after a sleep ─▶ Awake",
        "○ Awake (retry)",
    ]
    assert "Nap --> Awake: after a sleep" in command.ok("actor", "graph", "sleeper", "--mermaid").out
    assert "nap.svg" in command.ok("actor", "graph", "sleeper", "--svg", "nap.svg").out
    assert (tmp_path / "nap.svg").read_text() == command.ok("actor", "graph", "sleeper", "--svg", "-").out
    assert command.ok("actor", "graph", "sleeper", "--json").json["moves"][0] == ["Nap", "Awake", "after a sleep"]
    assert command.ok("actor", "template", "counter", "--json").json == {
        "actor": "counter",
        "state": "Count",
        "template": {"upto": 0, "n": 0},
    }
    assert json.loads(command.ok("actor", "template", "sleeper", "--state", "Awake").out) == {}
    assert not (tmp_path / "none.db").exists()
    command("actor", "graph", "nope").refused(1, "actors.modules")
