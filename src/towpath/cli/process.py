"""`towpath process`: who is alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from towpath.cli.given import open_runtime
from towpath.cli.options import AsJson
from towpath.cli.output import Column, age, print_json, print_table, short_time

if TYPE_CHECKING:
    from datetime import datetime

    from towpath.db.processes import ProcessRow

app = typer.Typer(help="See which processes are alive.", no_args_is_help=True)

_COLUMNS = (
    Column("process", whole=True),
    Column("state", whole=True),
    Column("last beat", right=True, whole=True),
    Column("pid", right=True, whole=True),
    Column("host"),
    Column("started (UTC)", whole=True, from_width=80),
    Column("lease ends", right=True, whole=True, from_width=100),
)


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Processes that claim messages, the newest first. Those that have ended stay for a while."""
    from towpath.clock import to_datetime
    from towpath.db.processes import ProcessStore

    with open_runtime(ctx) as runtime:
        with runtime.database.beats.read() as tx:
            found = ProcessStore(runtime.database).all(tx)
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json({"items": [_item(row) for row in found]})
    else:
        print_table(_COLUMNS, [_cells(row, now) for row in found])


def _item(row: ProcessRow) -> dict[str, object]:
    return {
        "id": row.id,
        "name": row.name,
        "host": row.host,
        "pid": row.pid,
        "state": row.state,
        "started_at": row.started_at,
        "beat_at": row.beat_at,
        "lease_until": row.lease_until,
    }


def _cells(row: ProcessRow, now: datetime) -> list[object]:
    # Nobody has looked yet: it is dead as soon as somebody does.
    state = "overdue" if row.state == "alive" and row.lease_until < now else row.state
    lease = age(row.lease_until, now) if row.state == "alive" else ""
    return [row.id, state, age(row.beat_at, now), row.pid, row.host, short_time(row.started_at, now), lease]
