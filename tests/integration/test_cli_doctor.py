"""`towpath doctor` with a database that is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.cli import CommandLine
from tests.support.tables import by_hand

from towpath.runtime import Runtime


def database(command: CommandLine, name: str = "database") -> dict[str, Any]:
    found = {item["name"]: item for item in command("doctor", "--json").json["items"]}
    item: dict[str, Any] = found[name]
    return item


def test_tables_are_looked_at(
    command: CommandLine, variables: dict[str, str], make_runtime: Callable[..., Runtime]
) -> None:
    runtime = make_runtime()
    assert database(command)["health"] == "ok"
    by_hand(runtime.database, "insert into schema_version (number, name) values (9999, '9999_future')")
    assert database(command)["health"] == "missing"
    by_hand(runtime.database, "delete from schema_version")
    item = database(command)
    assert (item["health"], item["remedy"]) == ("warning", "towpath schema upgrade")


def test_clocks_are_compared_with_a_server(
    command: CommandLine, variables: dict[str, str], make_runtime: Callable[..., Runtime]
) -> None:
    runtime = make_runtime()
    if runtime.database.dialect == "sqlite":
        assert database(command, "wake-ups")["health"] == "ok"
        return
    assert database(command, "database's clock")["health"] == "ok"
    runtime.database.shift_clock(100)
    item = database(command, "database's clock")
    assert item["health"] == "warning"
