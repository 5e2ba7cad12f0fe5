"""`towpath process` and `towpath peer`: who is alive, what has to run, how it died, and what keeps it running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import CliContext, UsageError, open_runtime, say
from towpath.cli.options import AsJson, Last, Who, Why
from towpath.cli.output import (
    Column,
    age,
    console,
    plain,
    print_fields,
    print_json,
    print_table,
    short_time,
    time_and_age,
)
from towpath.cli.progress import SignalHandler, StopRequest
from towpath.core.clock import SystemClock, to_datetime
from towpath.core.events import Events
from towpath.core.exact_json import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from towpath.db.processes import ProcessRow
    from towpath.runtime import Runtime
    from towpath.supervision.duties.store import Death
    from towpath.supervision.service import DutyView


app = typer.Typer(help="See which processes are alive, stop and start them.", no_args_is_help=True)
peer_app = typer.Typer(help="The processes that keep the others running.", no_args_is_help=True)

REPORT_S = 1.0

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

_DEATHS = (
    Column("duty", whole=True),
    Column("start", right=True, whole=True),
    Column("noticed (UTC)", whole=True),
    Column("how", whole=True),
    Column("code", whole=True),
    Column("freed"),
    Column("back after", right=True, whole=True),
    Column("host", from_width=100),
    Column("said", from_width=120),
)


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Processes that claim messages, the newest first. Those that have ended stay for a while."""
    from towpath.operations.processes import process_item

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
    from towpath.operations.processes import found_item
    from towpath.supervision.service import DutyView

    with open_runtime(ctx) as runtime:
        found = runtime.duties.find(process)
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json(found_item(found))
    elif isinstance(found, DutyView):
        _print_duty(found, now)
    else:
        _print_process(found, now)


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


@app.command()
def logs(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="As in `towpath status`.")],
    last: Last = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what it writes, until it ends.")] = False,
) -> None:
    """What a process that the coordinator keeps running has written, or its last one."""
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
    from towpath.operations.processes import death_item

    with open_runtime(ctx) as runtime:
        if name is not None:
            runtime.duties.show(name)
        found = runtime.duties.deaths(limit=max(last, 1), duty=name)
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json({"items": [death_item(each) for each in found]})
    else:
        _print_deaths(found, now)


@peer_app.callback()
def group() -> None:
    """The processes that keep the others running."""


@peer_app.command()
def run(
    ctx: typer.Context,
    number: Annotated[int, typer.Option(min=1, metavar="N", help="Which peer this is: 1 to supervision.peers.")],
) -> None:
    """Take part in the election, and keep duties running when elected. `towpath up` starts peers by itself."""
    from towpath.core import logs
    from towpath.runtime import Runtime
    from towpath.supervision.peers.socket import open_ping_socket, peer_name, told_address

    loaded = ctx.ensure_object(CliContext).settings(process={"name": peer_name(number)})
    logs.configure(loaded.logging)
    if number > loaded.supervision.peers:
        raise UsageError(f"--number {number}: supervision.peers is {loaded.supervision.peers}")
    port = loaded.supervision.port and loaded.supervision.port + number
    heard = Events()
    heard.subscribe(logs.log_event)
    udp = open_ping_socket(loaded, peer_name(number), heard, SystemClock(), port)
    with Runtime(loaded, kind="peer", pinged_at=told_address(loaded, udp)) as runtime:
        supervisor, wanted = runtime.supervisor(number, udp), StopRequest()
        with SignalHandler(grace_s=loaded.process.grace_s, run=wanted):
            supervisor.start()
            say(f"peer {number} of {loaded.supervision.peers} runs as process {runtime.process().id}; Ctrl-C ends it")
            runtime.process().ready(supervisor.status)
            while not wanted.wait(REPORT_S):
                runtime.process().report(supervisor.status)
            supervisor.stop()
    udp.close()


def _tell(runtime: Runtime, names: list[str], wish: str, as_json: bool) -> None:
    """Report the state of the duties. The coordinator carries the command out; say so when there is none."""
    from towpath.operations.processes import view_item

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


def _print_duty(view: DutyView, now: datetime) -> None:
    duty, process = view.duty, view.process
    print_fields(
        [
            ("name", duty.name),
            ("kind", duty.kind),
            ("host", duty.host),
            ("state", duty.state),
            ("wish", f"{duty.wish} ({duty.who}: {duty.why})" if duty.why else duty.wish),
            ("trouble", duty.trouble or None),
            ("start", f"number {duty.launch}" if duty.launch else None),
            ("started", time_and_age(duty.launched_at, now) if duty.is_running else None),
            ("ready", time_and_age(duty.ready_at, now) if duty.is_running else None),
            ("next start", time_and_age(duty.next_try_at, now)),
            ("command", " ".join(duty.spec.command)),
            *([] if process is None else _process_fields(process, now)),
        ]
    )
    if view.deaths:
        typer.echo("\ndeaths:")
        _print_deaths(view.deaths, now)


def _print_process(row: ProcessRow, now: datetime) -> None:
    fields: list[tuple[str, object]] = [("name", row.name), ("kind", row.kind or None), ("host", row.host)]
    print_fields([*fields, ("started", time_and_age(row.started_at, now)), *_process_fields(row, now)])


def _process_fields(row: ProcessRow, now: datetime) -> list[tuple[str, object]]:
    return [
        ("process", row.id),
        ("pid", row.pid),
        ("alive", row.state),
        ("status", row.status or None),
        ("progress", None if row.progress is None else to_json(row.progress)),
        ("version", row.version or None),
        ("last beat", time_and_age(row.beat_at, now)),
    ]


def _print_deaths(deaths: Sequence[Death], now: datetime) -> None:
    print_table(_DEATHS, [_death_cells(each, now) for each in deaths])


def _death_cells(death: Death, now: datetime) -> list[object]:
    code = f"signal {death.exit_signal}" if death.exit_signal is not None else death.exit_code
    freed = "" if not death.freed else ", ".join(f"{count} {what}" for what, count in death.freed.items() if count)
    back = "" if death.back_at is None else f"{(death.back_at - death.noticed_at).total_seconds():.1f}s"
    noticed = short_time(death.noticed_at, now)
    return [death.duty, death.launch, noticed, death.how, code, freed, back, death.host, death.trouble]


def _cells(row: ProcessRow, now: datetime) -> list[object]:
    # Nobody has looked yet: it is dead as soon as somebody does.
    state = "overdue" if row.state == "alive" and row.lease_until < now else row.state
    lease = age(row.lease_until, now) if row.state == "alive" else ""
    started = short_time(row.started_at, now)
    return [row.id, state, row.kind, age(row.beat_at, now), row.pid, row.host, row.status, started, lease]
