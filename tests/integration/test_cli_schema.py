"""`towpath schema` on both databases: empty, whole, newer, and changed by somebody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.cli import CommandLine
from tests.support.databases import without_tables
from tests.support.tables import by_hand

from towpath.db.open import known
from towpath.runtime import Runtime

FOLDERS = {"sqlite": ("sqlite", "sqlite_beats"), "postgr": ("postgres",)}


@pytest.fixture
def database_settings(database_settings: dict[str, Any]) -> dict[str, Any]:
    return without_tables(database_settings)


def states(command: CommandLine) -> set[str]:
    return {item["state"] for item in command.ok("schema", "status", "--json").json["items"]}


@pytest.fixture
def newer(make_runtime: Callable[..., Runtime], variables: dict[str, str]) -> None:
    """A database that a Towpath of the future has upgraded."""
    by_hand(make_runtime().database, "insert into schema_version (number, name) values (9999, '9999_future')")


def test_from_nothing_to_verified(
    command: CommandLine, variables: dict[str, str], database_settings: dict[str, Any]
) -> None:
    assert states(command) == {"pending"}
    assert "towpath schema upgrade" in command.ok("schema", "status").out
    command("schema", "verify").refused(3, "towpath schema upgrade")
    applied = command.ok("schema", "upgrade", "--who", "ann", "--why", "first", "--json").json["applied"]
    migrations = {item["migration"] for item in applied}
    assert migrations == {step.name for folder in FOLDERS[database_settings["url"][:6]] for step in known(folder)}
    assert states(command) == {"applied"}
    assert command.ok("schema", "upgrade", "--json").json["applied"] == []
    command.ok("schema", "verify")
    assert command.ok("schema", "verify", "--json").json == {"differences": []}
    events = command.ok("event", "list", "--kind", "schema_upgraded", "--json").json["items"]
    assert {(event["subject"], event["who"], event["why"]) for event in events} == {
        (name, "ann", "first") for name in migrations
    }


def test_without_auto_upgrade_a_person_decides(
    command: CommandLine, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWPATH_DATABASE__AUTO_UPGRADE", "false")
    assert command("queue", "list").code == 3
    command.ok("schema", "upgrade")
    command.ok("queue", "list")


def test_a_newer_schema_is_shown_and_left_alone(command: CommandLine, newer: None) -> None:
    ran = command.ok("schema", "status")
    assert "9999_future" in ran.out
    assert states(command) == {"applied", "newer"}
    for words in (["schema", "upgrade"], ["schema", "verify"], ["queue", "list"], ["event", "list"]):
        command(*words).refused(3, "9999_future")


def test_differences_are_listed(
    command: CommandLine, make_runtime: Callable[..., Runtime], variables: dict[str, str]
) -> None:
    database = make_runtime().database
    by_hand(database, "drop index message_by_audit")
    by_hand(database, "create index not_ours on event (who)")
    ran = command("schema", "verify")
    assert (ran.code, ran.err) == (1, "")
    assert len(ran.lines) == 2
    assert "message_by_audit" in ran.lines[0]
    assert "not_ours" in ran.lines[1]
    as_json = command("schema", "verify", "--json")
    assert as_json.code == 1
    assert len(as_json.json["differences"]) == 2
