"""`towpath event`: what happened."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import open_runtime
from towpath.cli.options import DEFAULT_ROWS, AsJson, Before, Last, Limit
from towpath.cli.output import Column, age, console, cut, plain, print_json, print_older, print_table, short_time
from towpath.core.clock import to_datetime
from towpath.core.events import EventKind
from towpath.core.exact_json import to_json

if TYPE_CHECKING:
    from towpath.db.event_log import StoredEvent


ROOM_FOR_IDS = 110  # columns from which on whole ids leave room for the rest

app = typer.Typer(help="See what happened: deaths, freed claims, changes by hand.", no_args_is_help=True)

Kind = Annotated[EventKind | None, typer.Option(metavar="KIND", help="Only this kind of event, such as process_died.")]
Subject = Annotated[str | None, typer.Option(metavar="ID", help="Only events about this message, process or inbox.")]


@app.command("list")
def list_(
    ctx: typer.Context,
    kind: Kind = None,
    subject: Subject = None,
    limit: Limit = DEFAULT_ROWS,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Events, the newest first."""
    from towpath.operations.queue import event_item

    with open_runtime(ctx) as runtime:
        with runtime.database.read() as tx:
            found = runtime.event_log.page(tx, limit=limit + 1, before=before, kind=kind, subject=subject)
        now = to_datetime(runtime.database.now())
    page, cursor = cut(found, limit)
    if as_json:
        print_json({"items": list(map(event_item, page)), "next": cursor})
        return
    print_events(page, now)
    print_older(cursor)


@app.command("follow")
def follow_events(
    ctx: typer.Context, kind: Kind = None, subject: Subject = None, last: Last = 10, as_json: AsJson = False
) -> None:
    """Events as they happen, until Ctrl-C."""
    from towpath.cli.interactive import follow
    from towpath.operations.queue import event_item

    with open_runtime(ctx) as runtime:

        def after(seq: int) -> list[StoredEvent]:
            with runtime.database.read() as tx:
                return list(runtime.event_log.after(tx, seq))

        with runtime.database.read() as tx:
            start = runtime.event_log.last_seq(tx)
            recent = runtime.event_log.page(tx, limit=last, kind=kind, subject=subject) if last else []
        show_one = (lambda event: print_json(event_item(event))) if as_json else print_line
        for event in reversed(recent):
            show_one(event)
        for event in follow(runtime, after, start):
            if kind in (None, event.kind) and subject in (None, event.subject):
                show_one(event)


def print_events(events: Sequence[StoredEvent], now: datetime, *, without_subject: bool = False) -> None:
    columns = [
        Column("at (UTC)", whole=True),
        Column("age", right=True, whole=True, from_width=100),
        Column("event", whole=True),
        Column("about", whole=console().width >= ROOM_FOR_IDS),
        Column("who"),
        Column("why"),
        Column("details", from_width=130),
    ]
    rows: list[list[object]] = [
        [short_time(e.at, now), age(e.at, now), e.kind, e.subject, e.who, e.why, _details(e)] for e in events
    ]
    if without_subject:
        columns.pop(3)
        rows = [row[:3] + row[4:] for row in rows]
    print_table(columns, rows)


def print_line(event: StoredEvent) -> None:
    """One line for a log that grows."""
    from rich.text import Text

    words = [event.kind, event.subject, event.who, event.why, _details(event)]
    line = Text.assemble((f"{event.at:%H:%M:%S}  ", "dim"), plain("  ".join(filter(None, words))))
    console().print(line, no_wrap=True, overflow="ellipsis", crop=True)


def _details(event: StoredEvent) -> str:
    return " ".join(
        f"{name}={value if isinstance(value, str) else to_json(value)}"
        for name, value in event.data.items()
        if value is not None
    )
