"""Named queries: how a file becomes statements of each driver."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests.support.sweep import sweep

import towpath
from towpath.db import database as queries
from towpath.db.database import Dialect, Queries

SOURCES = Path(towpath.__file__).parent
SCHEMA = SOURCES / "db" / "schema"
SQL_FILES = sorted(path for path in SOURCES.rglob("*.sql") if SCHEMA not in path.parents)
_LOADED = re.compile(r'Queries\(\s*"(towpath[\w.]*)", "(\w+)",[^()]*?(?:fragments="(\w+)")?\)')
# Package, file and the file whose texts it uses, as the code names them.
FILES = sorted({found for path in SOURCES.rglob("*.py") for found in _LOADED.findall(path.read_text(encoding="utf-8"))})


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An importable package to put `.sql` files in."""
    home = tmp_path / "some_queries"
    home.mkdir()
    (home / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "some_queries", raising=False)
    queries._read.cache_clear()  # each test has files of its own
    return home


def load(dialect: Dialect) -> Queries:
    return Queries("some_queries", "things", dialect)


def test_parameters_in_the_way_of_each_driver(package: Path) -> None:
    (package / "things.sql").write_text(
        "-- name: find\n-- Find it.\nselect a from t where b = :b and c=:long_name2 and d >= :now limit :limit;\n"
    )
    sqlite, postgres = load("sqlite")["find"], load("postgres")["find"]
    assert sqlite.text == "select a from t where b = :b and c=:long_name2 and d >= :now limit :limit"
    assert (
        postgres.text
        == "select a from t where b = %(b)s and c=%(long_name2)s and d >= (select towpath_now()) limit %(limit)s"
    )
    assert sqlite.uses_now
    assert postgres.uses_now


def test_casts_are_no_parameters(package: Path) -> None:
    (package / "things.postgres.sql").write_text(
        "-- name: find\n-- Find.\nselect :a::json, x::text, ':'::text, t.a:b;\n"
    )
    assert load("postgres")["find"].text == "select %(a)s::json, x::text, ':'::text, t.a:b"
    assert not load("postgres")["find"].uses_now


def test_fragments_are_put_in(package: Path) -> None:
    (package / "things.sql").write_text(
        "-- name: columns\n-- Not a query.\na,\nb;\n\n"
        "-- name: find\n-- Find.\nselect $columns from t where x in ($listed);\n"
    )
    (package / "things.sqlite.sql").write_text("-- name: listed\n-- Not a query.\nselect value from json_each(:ids);\n")
    (package / "things.postgres.sql").write_text("-- name: listed\n-- Not a query.\nselect unnest(:ids::text[]);\n")
    assert load("sqlite")["find"].text == "select a,\nb from t where x in (select value from json_each(:ids))"
    assert load("postgres")["find"].text == "select a,\nb from t where x in (select unnest(%(ids)s::text[]))"


def test_a_dialects_own_query_replaces_the_shared_one(package: Path) -> None:
    (package / "things.sql").write_text("-- name: one\n-- One.\nselect 1;\n\n-- name: two\n-- Two.\nselect 2;\n")
    (package / "things.postgres.sql").write_text("-- name: two\n-- Two.\nselect 22;\n")
    assert [load("sqlite")[name].text for name in load("sqlite").names()] == ["select 1", "select 2"]
    assert [load("postgres")[name].text for name in load("postgres").names()] == ["select 1", "select 22"]


@sweep(("package", "stem", "fragments"), FILES)
def test_both_dialects_have_the_same_queries(package: str, stem: str, fragments: str) -> None:
    sqlite, postgres = (Queries(package, stem, each, fragments or None) for each in ("sqlite", "postgres"))
    assert sqlite.names() == postgres.names()
    assert sqlite.names()
    assert {n: sqlite[n].uses_now for n in sqlite.names()} == {n: postgres[n].uses_now for n in postgres.names()}


@sweep(("package", "stem", "fragments"), FILES)
def test_no_fragment_is_left_over(package: str, stem: str, fragments: str) -> None:
    for dialect in ("sqlite", "postgres"):
        queries = Queries(package, stem, dialect, fragments or None)
        assert [name for name in queries.names() if "$" in queries[name].text] == []


@sweep("file", SQL_FILES)
def test_every_query_says_its_purpose(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    headed = re.findall(r"^-- name: (\w+)\n-- \S.*\.$", text, re.MULTILINE)
    assert headed == re.findall(r"^-- name: *(.*)$", text, re.MULTILINE)
    assert len(set(headed)) == len(headed) > 0


def test_every_sql_file_is_loaded_by_the_code() -> None:
    named = {(package, stem) for package, stem, _ in FILES}
    there = {
        (".".join(("towpath", *path.parent.relative_to(SOURCES).parts)), path.name.split(".")[0]) for path in SQL_FILES
    }
    assert there == named
