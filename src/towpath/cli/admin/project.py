"""`towpath init`, `schema` and `doctor`: a project that runs at once, its tables, and what this machine lacks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.admin.checks import Check, CheckStatus, Purpose, install, install_command
from towpath.cli.context import FAILED, CliContext, UsageError, say, sqlite_file
from towpath.cli.options import AsJson, Who
from towpath.cli.output import STYLES, Column, console, plain, print_json, print_table
from towpath.core.events import Event, EventKind, Events
from towpath.errors import DatabaseUnavailable, Refused, SchemaDiffers

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from towpath.db import Database
    from towpath.db.open import MigrationTarget


app = typer.Typer(help="Show, upgrade and verify the tables.", no_args_is_help=True)

TEMPLATE = "template"
ENDING = ".txt"  # so that no tool takes the files for part of Towpath
HIDDEN = {"gitignore": ".gitignore"}
DEFAULT_NAME = "first-flow"

_COLUMNS = (Column("migration"), Column("state", whole=True), Column("tables", whole=True), Column("where"))


def init(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", show_default=False, help="Where to; it is made if it is not there.")
    ],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of the flow; that of the directory if not given.")
    ] = None,
) -> None:
    """Make a project: a flow that runs, its test, a few records to try it with. No file is ever overwritten."""
    chosen = name if name is not None else _default_name(directory)
    _check_name(chosen)
    files = {directory / file: text.replace("@name@", chosen) for file, text in _template().items()}
    _write(directory, files)
    typer.echo(f"made the flow {chosen}:")
    for path in files:
        typer.echo(f"  {path}")
    typer.echo(f"\nREADME.md says what to type next, in its directory:\n  cd {shlex.quote(str(directory))}")


@app.command()
def status(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Which migrations the database has, and which it lacks."""
    from towpath.db.open import targets

    with _open(ctx) as (database, is_there):
        rows = [row for target in targets(database) for row in _states(target, is_there)]
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
    from towpath.db import open as migrations
    from towpath.db.event_log import EventLog

    with _open(ctx) as (database, _):
        done = [(target, step) for target in migrations.targets(database) for step in migrations.upgrade(target)]
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
    from towpath.db.open import targets

    with _open(ctx) as (database, is_there):
        if not is_there:
            raise DatabaseUnavailable(f"{database.url}: there is no database yet; type: towpath schema upgrade")
        found = [(target, line) for target in targets(database) for line in _differences(target)]
    if as_json:
        print_json({"differences": [{"tables": target.folder, "difference": line} for target, line in found]})
    for target, line in [] if as_json else found:
        typer.echo(f"{target.folder}: {plain(line)}")
    if found:
        raise typer.Exit(FAILED)
    if not as_json:
        typer.echo("the tables are what the migrations make")


def doctor(
    ctx: typer.Context,
    purpose: Annotated[
        list[Purpose] | None,
        typer.Option(
            "--for",
            metavar="PURPOSE",
            help="What the machine is to be used for: test, demo or flows; may be given several times.",
        ),
    ] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Install missing packages with apt-get if root; say the command if not.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check this machine, and say what to do about each thing missing. Exit code 1 when a needed one is."""
    from towpath.admin.doctor import examine

    given, purposes = ctx.ensure_object(CliContext), purpose or []
    checks = examine(given.flags(), given.config, purposes)
    packages = [check.package for check in checks if check.package and check.health is CheckStatus.MISSING]
    if fix and packages:
        command = install_command(packages)
        say(f"installing {', '.join(packages)} with apt-get …")
        install(command)
        checks = examine(given.flags(), given.config, purposes)
    if as_json:
        print_json({"items": [_item(check) for check in checks]})
    else:
        _print(checks)
    if any(check.health is CheckStatus.MISSING for check in checks):
        raise typer.Exit(FAILED)


def _template() -> dict[str, str]:
    from importlib import resources

    found: list[Traversable] = [
        each for each in (resources.files("towpath.cli") / TEMPLATE).iterdir() if each.name.endswith(ENDING)
    ]
    named = {each.name.removesuffix(ENDING): each.read_text(encoding="utf-8") for each in found}
    return {HIDDEN.get(name, name): named[name] for name in sorted(named)}


def _default_name(directory: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", directory.resolve().name).strip("-_")[:80] or DEFAULT_NAME


def _check_name(name: str) -> None:
    from towpath.flow.flow import NAME

    if not NAME.fullmatch(name):
        raise UsageError(f"--name {name!r}: a flow is named with letters, digits, - and _, 80 at most")


def _write(directory: Path, files: dict[Path, str]) -> None:
    taken = [str(path) for path in files if path.exists() or path.is_symlink()]
    if taken:
        raise Refused(f"nothing was written, since this is there already: {', '.join(taken)}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {error.filename or directory}: {error.strerror}") from error


@contextmanager
def _open(ctx: typer.Context) -> Iterator[tuple[Database, bool]]:
    """The database, whose tables are neither looked at nor needed, and whether it exists."""
    from towpath.db.open import connect_database

    settings = ctx.ensure_object(CliContext).settings()
    file = sqlite_file(settings)
    database = connect_database(settings.database)
    try:
        yield database, file is None or file.exists()
    finally:
        database.close()


def _states(target: MigrationTarget, is_there: bool) -> list[tuple[str, str, str, str]]:
    from towpath.db.open import known

    # Asking would make the file.
    applied = dict(target.applied()) if is_there else {}
    ours = {step.number: step.name for step in known(target.folder)}
    states = {number: "applied" if number in applied else "pending" for number in ours}
    states |= {number: "newer" for number in applied if number not in ours}
    return [
        (ours.get(number) or applied[number], states[number], target.folder, target.shown) for number in sorted(states)
    ]


def _differences(target: MigrationTarget) -> list[str]:
    from towpath.db.open import verify

    try:
        verify(target)
    except SchemaDiffers as error:
        return error.differences
    return []


def _item(check: Check) -> dict[str, str]:
    return {"name": check.name, "health": check.health, "found": check.found, "remedy": check.remedy}


def _print(checks: Sequence[Check]) -> None:
    """Print a list and not a table: a finding can be long, and its remedy must not be cut off."""
    from rich.text import Text

    out = console()
    widest = max(len(check.name) for check in checks)
    for check in checks:
        health = (f"{check.health:<7}", STYLES[check.health])
        out.print(Text.assemble(health, f"  {check.name:<{widest}}  {plain(check.found)}"), soft_wrap=True)
        if check.remedy:
            out.print(Text(f"{'':<{9 + widest}}  → {plain(check.remedy)}", style="bold"), soft_wrap=True)
