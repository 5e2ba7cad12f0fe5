"""Migrations: applied once by whoever comes first, whole or not at all; a schema that does not fit is refused."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.databases import without_tables
from tests.support.programs import run_together
from tests.support.tables import by_hand, rows

import towpath
from towpath.db import Database
from towpath.db import open as migrations
from towpath.db.open import (
    Migration,
    MigrationTarget,
    connect_database,
    known,
    open_database,
    pending,
    targets,
    upgrade,
    verify,
)
from towpath.errors import DatabaseUnavailable, SchemaDiffers, SchemaError, SchemaTooNew, SchemaTooOld
from towpath.settings import DatabaseSettings
from towpath.stack.postgres import PostgresServer


@pytest.fixture
def database_settings(database_settings: dict[str, Any]) -> dict[str, Any]:
    return without_tables(database_settings)


@pytest.fixture
def settings(database_settings: dict[str, Any]) -> DatabaseSettings:
    return DatabaseSettings(**database_settings)


@pytest.fixture
def database(settings: DatabaseSettings) -> Iterator[Database]:
    """A database without tables."""
    made = connect_database(settings)
    yield made
    made.close()


def main_target(database: Database) -> MigrationTarget:
    """The one that holds the messages; on SQLite there is a second file for process rows."""
    [found] = [target for target in targets(database) if target.folder in ("sqlite", "postgres")]
    return found


def upgrade_all(database: Database) -> list[str]:
    return [migration.name for target in targets(database) for migration in upgrade(target)]


def versions(database: Database) -> list[list[tuple[int, str]]]:
    return [target.applied() for target in targets(database)]


def test_upgrading_twice_does_nothing_the_second_time(database: Database) -> None:
    assert versions(database) == [[] for _ in targets(database)]
    done = upgrade_all(database)
    assert done == [migration.name for target in targets(database) for migration in known(target.folder)]
    before = versions(database), [target.catalogue() for target in targets(database)]
    assert upgrade_all(database) == []
    assert (versions(database), [target.catalogue() for target in targets(database)]) == before


def test_migrations_are_numbered_without_gap() -> None:
    for folder in ("sqlite", "sqlite_beats", "postgres"):
        assert [migration.number for migration in known(folder)] == list(range(1, len(known(folder)) + 1))


@pytest.mark.part("gate")
def test_a_fresh_schema_is_what_the_migrations_make(database: Database) -> None:
    upgrade_all(database)
    for target in targets(database):
        verify(target)


@pytest.mark.part("gate")
def test_opening_upgrades(settings: DatabaseSettings) -> None:
    database = open_database(settings)
    try:
        assert [pending(target) for target in targets(database)] == [[] for _ in targets(database)]
    finally:
        database.close()


def test_with_upgrading_off_an_old_schema_is_an_error(settings: DatabaseSettings, database: Database) -> None:
    off = settings.model_copy(update={"auto_upgrade": False})
    with pytest.raises(SchemaTooOld, match=r"0001_foundation.*`towpath schema upgrade`"):
        open_database(off)
    assert versions(database) == [[] for _ in targets(database)]
    upgrade_all(database)
    open_database(off).close()


def test_a_newer_schema_is_left_alone(settings: DatabaseSettings, database: Database) -> None:
    upgrade_all(database)
    by_hand(database, "insert into schema_version (number, name) values (9999, '9999_future')")
    text = r"9999_future .*\d{4}_\w+"
    for auto_upgrade in (True, False):
        with pytest.raises(SchemaTooNew, match=text):
            open_database(settings.model_copy(update={"auto_upgrade": auto_upgrade}))
    with pytest.raises(SchemaTooNew):
        towpath.connect(database=settings.model_dump(by_alias=True))
    with pytest.raises(SchemaTooNew):
        verify(main_target(database))


def future(database: Database, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this version bring one migration more."""
    real = migrations.known
    folder = main_target(database).folder
    extra = Migration(5000, "5000_more", text)
    monkeypatch.setattr(migrations, "known", lambda which: [*real(which), extra] if which == folder else real(which))


@pytest.mark.part("gate")
def test_the_next_migration_is_applied_on_top(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade_all(database)
    future(database, "create table more (x integer);\ncreate index more_x on more (x);\n", monkeypatch)
    with pytest.raises(SchemaTooOld, match="5000_more"):
        migrations.check(main_target(database))
    assert upgrade_all(database) == ["5000_more"]
    assert rows(database, "more") == []


@pytest.mark.parametrize("was_empty", [True, False])
def test_a_migration_that_fails_is_rolled_back_whole(
    database: Database, monkeypatch: pytest.MonkeyPatch, was_empty: bool
) -> None:
    if not was_empty:
        upgrade_all(database)
    target = main_target(database)
    before = target.applied(), [] if was_empty else target.catalogue()
    future(database, "create table more (x integer);\nalter table no_such_table add column y integer;\n", monkeypatch)
    with pytest.raises(SchemaError, match="no_such_table"):
        upgrade(target)
    assert (target.applied(), [] if was_empty else target.catalogue()) == before
    with pytest.raises((sqlite3.OperationalError, psycopg.errors.UndefinedTable)):
        rows(database, "more")


def test_an_unwritable_migration_leaves_the_connection_usable(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade_all(database)
    future(database, "nonsense;\n", monkeypatch)
    with pytest.raises(SchemaError):
        upgrade(main_target(database))
    assert rows(database, "message") == []
    assert by_hand(database, "delete from message") == 0


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("drop index message_by_related", "message_by_related"),
        ("alter table message add column extra integer", "extra"),
        ("alter table message rename column reason to cause", "reason"),
        ("create table stranger (x integer)", "stranger"),
        ("drop view message_readable", "message_readable"),
    ],
)
def test_verify_finds_what_was_changed(database: Database, change: str, found: str) -> None:
    upgrade_all(database)
    by_hand(database, change)
    with pytest.raises(SchemaDiffers, match=found):
        for target in targets(database):
            verify(target)


def test_verify_finds_a_lost_constraint(postgres: PostgresServer) -> None:
    """Only on PostgreSQL: SQLite cannot drop a constraint of a table that is there."""
    database = open_database(DatabaseSettings(url=postgres.url, schema="lost_constraint"))
    try:
        by_hand(database, "alter table message drop constraint new_has_no_owner")
        with pytest.raises(SchemaDiffers, match="new_has_no_owner"):
            verify(main_target(database))
    finally:
        by_hand(database, "drop schema lost_constraint cascade")
        database.close()


def test_verify_leaves_nothing_behind(database: Database) -> None:
    upgrade_all(database)
    before = [target.catalogue() for target in targets(database)]
    for target in targets(database):
        verify(target)
    assert [target.catalogue() for target in targets(database)] == before


PROGRAM = """
with towpath.connect(database=database) as runtime:
    inbox = runtime.queue.inbox(f"inbox-{argument}")
    runtime.queue.outbox("me").notice(inbox.name, "DO")
    claimed = inbox.claim()
    inbox.finish(claimed)
print(json.dumps(len(claimed)))
"""


def test_several_processes_start_at_once_on_an_empty_database(
    database: Database, database_settings: dict[str, Any]
) -> None:
    assert run_together(PROGRAM, database_settings, range(6)) == [1] * 6
    for target in targets(database):
        verify(target)
        assert [name for _, name in target.applied()] == [migration.name for migration in known(target.folder)]
    assert [row["state"] for row in rows(database, "message")] == ["OK"] * 6


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="/no/such"):
        open_database(DatabaseSettings(url=f"sqlite:///{tmp_path}/no/such/towpath.db"))


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "towpath.db").write_text("This is a letter to my grandmother. " * 100)
    with pytest.raises(towpath.TowpathError, match="not a database"):
        open_database(DatabaseSettings(url=f"sqlite:///{tmp_path}/towpath.db"))


def test_a_server_that_is_not_there(unused_port: Callable[[], int]) -> None:
    url = f"postgresql://ada:hunter2@127.0.0.1:{unused_port()}/x"
    with pytest.raises(DatabaseUnavailable) as caught:
        open_database(DatabaseSettings(url=url))
    assert "hunter2" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


@pytest.fixture
def unused_port() -> Callable[[], int]:
    def find() -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    return find
