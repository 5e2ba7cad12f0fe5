"""`towpath data-set`: what runs have made, and what was made from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import open_runtime
from towpath.cli.options import DEFAULT_ROWS, AsJson, Before, Limit, Who, Why, YesOrY, confirm, parse_state
from towpath.cli.output import (
    Column,
    age,
    cut,
    print_done,
    print_fields,
    print_json,
    print_older,
    print_table,
    size_text,
    time_and_age,
)
from towpath.core.clock import to_datetime
from towpath.core.exact_json import to_json

if TYPE_CHECKING:
    from datetime import datetime

    from towpath.catalog import DataSet


app = typer.Typer(help="See what runs have made, and delete it.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="DATA_SET", show_default=False, help="The data set's id.")]

_COLUMNS = (
    Column("data set", whole=True),
    Column("kind", whole=True),
    Column("about"),
    Column("state", whole=True),
    Column("records", right=True, whole=True),
    Column("size", right=True, whole=True),
    Column("age", right=True, whole=True),
    Column("made by", from_width=120),
)


@app.command("list")
def list_(
    ctx: typer.Context,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Only those of this kind.")] = None,
    about: Annotated[str | None, typer.Option(metavar="SUBJECT", help="Only those about this; needs --kind.")] = None,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Only those that are making, ready, deleting or deleted.")
    ] = None,
    limit: Limit = DEFAULT_ROWS,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Data sets, the newest first."""
    from towpath.catalog import DataSetState
    from towpath.operations.catalog import data_set_item

    wanted = parse_state(DataSetState, state, "a data set")
    with open_runtime(ctx) as runtime:
        found = runtime.data_sets.list(kind=kind, subject=about, state=wanted, before=before, limit=limit + 1)
        now = to_datetime(runtime.database.now())
    page, cursor = cut(found, limit)
    if as_json:
        print_json({"items": [data_set_item(each) for each in page], "next": cursor})
        return
    print_table(_COLUMNS, [_cells(each, now) for each in page])
    print_older(cursor)


@app.command()
def show(ctx: typer.Context, data_set: Id, as_json: AsJson = False) -> None:
    """One data set: where it is, what it was made from, and what was made from it."""
    from towpath.operations.catalog import lineage_item

    with open_runtime(ctx) as runtime:
        lineage = runtime.data_sets.show(data_set)
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json(lineage_item(lineage))
        return
    _print(lineage.data_set, now)
    for title, members in (("made from", lineage.parents), ("made of it", lineage.children)):
        if members:
            typer.echo(f"\n{title}:")
            print_table(_COLUMNS, [_cells(each, now) for each in members])


@app.command()
def delete(
    ctx: typer.Context,
    data_set: Id,
    why: Why,
    who: Who = "",
    yes: YesOrY = False,
    as_json: AsJson = False,
) -> None:
    """Remove all that a data set is. Its row stays for a while, as deleted. One that is in use is refused."""
    from towpath.operations.catalog import data_set_item

    with open_runtime(ctx) as runtime:
        found = runtime.data_sets.show(data_set).data_set
        if not yes:
            confirm(f"delete {found.kind} {found.id} at {found.place}?", "nothing was deleted")
        gone = runtime.data_sets.delete(data_set, who=who, why=why)
    print_done(data_set_item(gone), f"{gone.kind} {gone.id} is deleted: nothing is left at {gone.place}", as_json)


def _cells(found: DataSet, now: datetime) -> list[object]:
    counts = ["" if found.records is None else f"{found.records:,}", _size(found.bytes)]
    return [found.id, found.kind, found.subject, found.state, *counts, age(found.begun_at, now), found.origin]


def _size(count: int | None) -> str:
    return "" if count is None else size_text(count)


def _print(found: DataSet, now: datetime) -> None:
    fields: list[tuple[str, object]] = [
        ("data set", found.id),
        ("kind", found.kind),
        ("about", found.subject or None),
        ("state", found.state),
        ("reason", found.reason),
        ("place", found.place),
        ("made by", found.origin or None),
        ("records", None if found.records is None else f"{found.records:,}"),
        ("size", _size(found.bytes) or None),
        ("begun", time_and_age(found.begun_at, now)),
        ("ready", time_and_age(found.ready_at, now)),
        ("deleted", time_and_age(found.deleted_at, now)),
    ]
    print_fields([*fields, *((name, to_json(value)) for name, value in found.facts.items())])
