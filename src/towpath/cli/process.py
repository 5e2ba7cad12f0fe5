"""`towpath process`: who is alive, what has to run, and how it died."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.given import open_runtime
from towpath.cli.options import AsJson, Last, Who, Why
from towpath.cli.output import Column, age, console, print_json, print_table, short_time
from towpath.cli.process_view import print_duty, print_process

if TYPE_CHECKING:
    from datetime import datetime

    from towpath.db.processes import ProcessRow
    from towpath.runtime import Runtime

app = typer.Typer(help="See which processes are alive, stop and start them.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="PROCESS", show_default=False, help="Its name in the settings, or its id.")
]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", show_default=False, help="As in `towpath status`.")]

_COLUMNS = (
    Column("process", whole=True),
    Column("state", whole=True),
    Column("kind", whole=True),
    Column("last beat", right=True, whole=True),
    Column("pid", right=True, whole=True),
    Column("host"),
    Column("status", from_width=100),
    Column("started (UTC)", whole=True, from_width=120),
    Column("lease ends", right=True, whole=True, from_width=140),
)


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Processes that claim messages, the newest first. Those that have ended stay for a while."""
    from towpath.clock import to_datetime
    from towpath.db.process_json import process_item

    with open_runtime(ctx) as runtime:
        found = runtime.duties.processes()
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json({"items": [process_item(row) for row in found]})
    else:
        print_table(_COLUMNS, [_cells(row, now) for row in found])


@app.command()
def show(ctx: typer.Context, process: Name, as_json: AsJson = False) -> None:
    """One process, by its name in the settings or its id: what it does, since when, and how earlier ones died."""
    from towpath.clock import to_datetime
    from towpath.supervision.duty_desk import DutyView
    from towpath.supervision.duty_json import found_item

    with open_runtime(ctx) as runtime:
        found = runtime.duties.find(process)
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json(found_item(found))
    elif isinstance(found, DutyView):
        print_duty(found, now)
    else:
        print_process(found, now)


@app.command()
def stop(ctx: typer.Context, names: Names, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Processes that the coordinator keeps running are not to run any more; `restart` or `towpath up` starts them."""
    with open_runtime(ctx) as runtime:
        runtime.duties.stop(*names, who=who, why=why)
        _tell(runtime, names, "stop", as_json)


@app.command()
def restart(ctx: typer.Context, names: Names, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Stop processes in order and start them again; one that failed or was stopped is started."""
    with open_runtime(ctx) as runtime:
        runtime.duties.restart(*names, who=who, why=why)
        _tell(runtime, names, "restart", as_json)


def _tell(runtime: Runtime, names: list[str], wish: str, as_json: bool) -> None:
    """What was wished is done by the coordinator: who has none should know."""
    from towpath.supervision.duty_json import view_item

    views = [runtime.duties.show(name) for name in names]
    is_seen_to = runtime.duties.overview().has_coordinator
    if as_json:
        print_json({"items": [view_item(view) for view in views], "has_coordinator": is_seen_to})
        return
    for view in views:
        said = "is stopped" if view.duty.state == "stopped" else f"is to {wish}; it is {view.duty.state} now"
        typer.echo(f"{view.duty.name} {said}")
    if not is_seen_to:
        console().print("no peer is there to see to it: type towpath up", style="yellow")


@app.command()
def logs(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="As in `towpath status`.")],
    last: Last = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what it writes, until it ends.")] = False,
) -> None:
    """What a process that the coordinator keeps running has written, or its last one."""
    from towpath.cli.output import plain

    with open_runtime(ctx) as runtime:
        for line in runtime.duties.logs(name, tail=last, follow=follow):
            typer.echo(plain(line))


@app.command()
def deaths(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False, help="Only of this one.")] = None,
    last: Last = 50,
    as_json: AsJson = False,
) -> None:
    """Who died, how, when that was noticed, what was freed and when it was back; the newest first."""
    from towpath.cli.process_view import print_deaths
    from towpath.clock import to_datetime
    from towpath.supervision.duty_json import death_item

    with open_runtime(ctx) as runtime:
        if name is not None:
            runtime.duties.show(name)
        found = runtime.duties.deaths(limit=max(last, 1), duty=name)
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json({"items": [death_item(each) for each in found]})
    else:
        print_deaths(found, now)


def _cells(row: ProcessRow, now: datetime) -> list[object]:
    # Nobody has looked yet: it is dead as soon as somebody does.
    state = "overdue" if row.state == "alive" and row.lease_until < now else row.state
    lease = age(row.lease_until, now) if row.state == "alive" else ""
    started = short_time(row.started_at, now)
    return [row.id, state, row.kind, age(row.beat_at, now), row.pid, row.host, row.status, started, lease]
