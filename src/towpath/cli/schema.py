"""`towpath schema`: whether the tables fit the code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import FAILED
from towpath.cli.given import Given, sqlite_file
from towpath.cli.options import AsJson, Who
from towpath.cli.output import Column, plain, print_json, print_table

if TYPE_CHECKING:
    from towpath.db import Database
    from towpath.db.migrations import Target

app = typer.Typer(help="Show, upgrade and verify the tables.", no_args_is_help=True)

_COLUMNS = (Column("migration"), Column("state", whole=True), Column("tables", whole=True), Column("where"))


@app.command()
def status(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Which migrations the database has, and which it lacks."""
    with _open(ctx) as (database, is_there):
        rows = [row for target in _targets(database) for row in _states(target, is_there)]
    if as_json:
        print_json({"items": [dict(zip(("migration", "state", "tables", "where"), row, strict=True)) for row in rows]})
        return
    print_table(_COLUMNS, rows)
    states = {row[1] for row in rows}
    if "newer" in states:
        typer.echo("a newer Towpath has upgraded this database: install that version here")
    elif "pending" in states:
        typer.echo("to upgrade: towpath schema upgrade")


@app.command()
def upgrade(
    ctx: typer.Context,
    why: Annotated[str, typer.Option(help="Why you do this; kept with the change.")] = "",
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Apply the migrations that the database lacks. Several at once wait for each other."""
    from towpath.db import migrations
    from towpath.db.event_log import EventLog
    from towpath.events import Event, EventKind, Events

    with _open(ctx) as (database, _):
        done = [(target, step) for target in _targets(database) for step in migrations.upgrade(target)]
        log = EventLog(database, Events())
        for target, step in done:
            with database.transaction() as tx:
                log.record(tx, Event(EventKind.SCHEMA_UPGRADED, step.name, who, why, {"tables": target.folder}))
    if as_json:
        print_json({"applied": [{"migration": step.name, "tables": target.folder} for target, step in done]})
        return
    for target, step in done:
        typer.echo(f"applied {step.name} to {plain(target.shown)}")
    if not done:
        typer.echo("nothing to do: the database has every migration")


@app.command()
def verify(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Compare the tables with what the migrations make; exit code 1 when they differ."""
    from towpath.errors import DatabaseUnavailable

    with _open(ctx) as (database, is_there):
        if not is_there:
            raise DatabaseUnavailable(f"{database.url}: there is no database yet; type: towpath schema upgrade")
        found = [(target, line) for target in _targets(database) for line in _differences(target)]
    if as_json:
        print_json({"differences": [{"tables": target.folder, "difference": line} for target, line in found]})
    for target, line in [] if as_json else found:
        typer.echo(f"{target.folder}: {plain(line)}")
    if found:
        raise typer.Exit(FAILED)
    if not as_json:
        typer.echo("the tables are what the migrations make")


@contextmanager
def _open(ctx: typer.Context) -> Iterator[tuple[Database, bool]]:
    """The database with a look at its tables neither taken nor needed, and whether it is there at all."""
    from towpath.db.open import connect_database

    settings = ctx.ensure_object(Given).settings()
    file = sqlite_file(settings)
    database = connect_database(settings.database)
    try:
        yield database, file is None or file.exists()
    finally:
        database.close()


def _targets(database: Database) -> list[Target]:
    from towpath.db.migration_targets import targets

    return targets(database)


def _states(target: Target, is_there: bool) -> list[tuple[str, str, str, str]]:
    from towpath.db.migrations import known

    # Asking would make the file.
    applied = dict(target.applied()) if is_there else {}
    ours = {step.number: step.name for step in known(target.folder)}
    states = {number: "applied" if number in applied else "pending" for number in ours}
    states |= {number: "newer" for number in applied if number not in ours}
    return [
        (ours.get(number) or applied[number], states[number], target.folder, target.shown) for number in sorted(states)
    ]


def _differences(target: Target) -> list[str]:
    from towpath.db import migrations
    from towpath.errors import SchemaDiffers

    try:
        migrations.verify(target)
    except SchemaDiffers as error:
        return error.differences
    return []
