"""`towpath maintenance`: what can be cleaned, and how large it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import open_runtime
from towpath.cli.options import AsJson, Who, Why
from towpath.cli.output import Column, age, print_json, print_table, size_text
from towpath.core.clock import to_datetime

if TYPE_CHECKING:
    from datetime import datetime

    from towpath.admin.cleanup import Size
    from towpath.admin.maintenance import CleaningView


app = typer.Typer(help="See how large things are, and clean them now.", no_args_is_help=True)

_COLUMNS = (
    Column("name", whole=True),
    Column("size", right=True, whole=True),
    Column("cleaned", right=True, whole=True),
    Column("by"),
    Column("what"),
)


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False) -> None:
    """What can be cleaned, with its size, and when somebody did so last."""
    from towpath.admin.maintenance import Maintenance, cleaning_item

    with open_runtime(ctx) as runtime:
        found = Maintenance(runtime).list()
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json({"items": [cleaning_item(each) for each in found]})
    else:
        print_table(_COLUMNS, [_cells(each, now) for each in found])


@app.command()
def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="What to clean.")],
    why: Why,
    force: Annotated[bool, typer.Option("--force", help="Also while others are at work that it disturbs.")] = False,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Clean something now. Services do so anyway, when its time has come."""
    from towpath.admin.maintenance import Maintenance, last_item

    with open_runtime(ctx) as runtime:
        done = Maintenance(runtime).run(name, who=who, why=why, force=force)
    if as_json:
        print_json({"name": name, **(last_item(done) or {})})
        return
    told = ", ".join(f"{count:,} {what}" for what, count in done.done.items())
    typer.echo(f"{name}: {_size(done.before)} before, {_size(done.after)} after{f' ({told})' if told else ''}")


def _size(size: Size) -> str:
    if size.unit == "bytes":
        return size_text(size.amount)
    return f"{size.amount:,}{'+' if size.is_more else ''} rows"


def _cells(view: CleaningView, now: datetime) -> list[object]:
    last = view.last
    done = [None, None] if last is None else [age(last.at, now), last.who]
    return [view.name, _size(view.size), *done, view.about]
