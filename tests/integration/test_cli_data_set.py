"""`towpath data-set`: what runs have made, seen and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.cli import CommandLine
from tests.support.sweep import sweep
from tests.support.tables import events, rows

from towpath.catalog.data_sets.directory import make_directory, place_of
from towpath.runtime import Runtime

BY = ("--why", "a good reason", "--who", "ann")
DAY_S = 86_400


@pytest.fixture
def crawl(variables: dict[str, str], runtime: Runtime, tmp_path: Path) -> str:
    """One that is ready, and another that is being made from it."""
    id = ready(runtime, tmp_path, "crawl")
    runtime.data_sets.begin(str(uuid4()), kind="documents", place=place_of(tmp_path / "documents"), parents=[id])
    return id


def ready(runtime: Runtime, tmp_path: Path, kind: str, *parents: str) -> str:
    id = str(uuid4())
    place = place_of(tmp_path / id)
    runtime.data_sets.begin(id, kind=kind, subject="a.test", origin="run 1", place=place, parents=parents)
    (make_directory(place, id) / "part").write_bytes(b"12345")
    runtime.data_sets.finish(id, records=1_234, bytes=5_000, facts={"not_modified": 7})
    return id


def test_list(command: CommandLine, crawl: str, runtime: Runtime) -> None:
    runtime.database.shift_clock(2.5 * 3600)
    head, *lines = command.ok("data-set", "list").lines
    assert head.split()[:3] == ["data", "set", "kind"]
    assert [line.split()[1] for line in lines] == ["documents", "crawl"]
    assert lines[1].split() == [crawl, "crawl", "a.test", "ready", "1,234", "4.9", "KiB", "2h", "run", "1"]
    assert command.ok("data-set", "list", "--kind", "crawl", "--about", "b.test", "--json").json["items"] == []
    [item] = command.ok("data-set", "list", "--state", "ready", "--json").json["items"]
    assert (item["id"], item["facts"]) == (crawl, {"not_modified": 7})


def test_pages(command: CommandLine, crawl: str) -> None:
    first = command.ok("data-set", "list", "--limit", 1, "--json").json
    second = command.ok("data-set", "list", "--limit", 1, "--before", first["next"], "--json").json
    assert [each["kind"] for each in (*first["items"], *second["items"])] == ["documents", "crawl"]
    assert second["next"] is None


def test_show(command: CommandLine, crawl: str) -> None:
    shown = command.ok("data-set", "show", crawl).out
    assert "not_modified" in shown
    family: dict[str, Any] = command.ok("data-set", "show", crawl, "--json").json
    assert [each["kind"] for each in family["children"]] == ["documents"]
    assert family["parents"] == []


def test_delete(command: CommandLine, crawl: str, runtime: Runtime, tmp_path: Path) -> None:
    command("data-set", "delete", crawl, *BY, "--yes").refused(1)
    command("data-set", "delete", crawl, *BY).refused(2, "--yes")
    other = ready(runtime, tmp_path, "crawl")
    assert f"file:{tmp_path}/{other}" in command.ok("data-set", "delete", other, *BY, "--yes").out
    assert not (tmp_path / other).exists()
    [event] = events(runtime.database, "data_set_deleted_by_hand")
    assert (event["who"], event["why"]) == ("ann", "a good reason")


@sweep(
    ("words", "code", "said"),
    [
        (("show", "x"), 1, "'x'"),
        (("show", "00000000-0000-0000-0000-000000000000"), 1, "00000000-0000-0000-0000-000000000000"),
        (("list", "--state", "gone"), 1, "making, ready, deleting, deleted"),
        (("list", "--about", "a.test"), 1, "kind="),
    ],
)
def test_wrong_words(words: tuple[str, ...], code: int, said: str, command: CommandLine, crawl: str) -> None:
    command("data-set", *words).refused(code, said)


def test_what_was_deleted_long_ago_is_forgotten(runtime: Runtime, tmp_path: Path) -> None:
    """Not what others were made from, as long as they are known."""
    parent = ready(runtime, tmp_path, "crawl")
    child = ready(runtime, tmp_path, "documents", parent)
    stays = ready(runtime, tmp_path, "crawl")
    runtime.data_sets.delete(parent, who="ann", why="old")
    runtime.database.shift_clock(100 * DAY_S)
    assert runtime.data_sets.forget(90 * DAY_S) == 0
    runtime.data_sets.delete(child, who="ann", why="old")
    assert runtime.data_sets.forget(90 * DAY_S) == 0
    runtime.database.shift_clock(100 * DAY_S)
    assert runtime.data_sets.forget(90 * DAY_S) == 2
    assert [str(row["id"]) for row in rows(runtime.database, "data_set")] == [stays]
    assert rows(runtime.database, "data_set_parent") == []
