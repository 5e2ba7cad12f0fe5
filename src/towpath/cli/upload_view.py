"""How uploads are shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from towpath.cli.output import (
    Column,
    age,
    print_fields,
    print_older,
    print_table,
    size_text,
    time_and_age,
)

if TYPE_CHECKING:
    from towpath.boundary.outlet import QueryView
    from towpath.boundary.sender import Sender
    from towpath.boundary.upload import Upload, UploadStatus

_UPLOADS = (
    Column("upload", whole=True),
    Column("stream", whole=True),
    Column("state", whole=True),
    Column("label"),
    Column("owner"),
    Column("opened", right=True, whole=True),
    Column("heard of", right=True, whole=True),
    Column("why", from_width=110),
)
_SENDERS = (
    Column("sender", whole=True),
    Column("input", whole=True),
    Column("format", whole=True),
    Column("state", whole=True),
    Column("sent", right=True, whole=True),
    Column("lines", right=True, whole=True),
    Column("refused", right=True, whole=True),
    Column("blocked", right=True, whole=True),
    Column("session", right=True, whole=True),
)
_RESULTS = (
    Column("result", whole=True),
    Column("kind", whole=True),
    Column("state", whole=True),
    Column("rows", right=True, whole=True),
    Column("size", right=True, whole=True),
    Column("acknowledged", right=True, whole=True),
)


def print_uploads(page: Sequence[Upload], now: datetime, cursor: int | None) -> None:
    print_table(_UPLOADS, [_cells(each, now) for each in page])
    print_older(cursor)


def print_upload(status: UploadStatus, results: Sequence[QueryView], now: datetime) -> None:
    found = status.upload
    print_fields(
        [
            ("upload", found.id),
            ("stream", found.stream),
            ("state", found.state),
            ("label", found.label or None),
            ("owner", found.owner),
            ("opened", time_and_age(found.opened_at, now)),
            ("heard of", time_and_age(found.touched_at, now)),
            ("all sent", time_and_age(found.closed_at, now)),
            ("results from", time_and_age(found.sending_at, now)),
            ("ended", time_and_age(found.ended_at, now)),
            ("who", found.who),
            ("why", found.why),
            ("failed tries", found.tries or None),
        ]
    )
    typer.echo()
    print_table(_SENDERS, [_sender_cells(each) for each in status.senders])
    if results:
        typer.echo()
        print_table(_RESULTS, [_result_cells(each, now) for each in results])


def upload_item(found: Upload) -> dict[str, Any]:
    return {
        "id": found.id,
        "stream": found.stream,
        "state": found.state,
        "label": found.label,
        "owner": found.owner,
        "opened_at": found.opened_at,
        "touched_at": found.touched_at,
        "closed_at": found.closed_at,
        "sending_at": found.sending_at,
        "ended_at": found.ended_at,
        "who": found.who,
        "why": found.why,
        "tries": found.tries,
    }


def status_item(status: UploadStatus, results: Sequence[QueryView]) -> dict[str, Any]:
    senders = [_sender_item(each) for each in status.senders]
    return {**upload_item(status.upload), "senders": senders, "results": [_result_item(each) for each in results]}


def _sender_item(found: Sender) -> dict[str, Any]:
    names = ("input", "format", "state", "session", "position", "line", "sequence", "refused", "blocked", "crc32")
    columns = None if found.columns is None else list(found.columns)
    return {"sender": found.name, "columns": columns, **{name: getattr(found, name) for name in names}}


def _result_item(found: QueryView) -> dict[str, Any]:
    names = ("query", "kind", "state", "rows", "bytes", "cursor", "acknowledged_at", "is_acknowledged")
    return {name: getattr(found, name) for name in names}


def _cells(found: Upload, now: datetime) -> list[object]:
    ages = [age(found.opened_at, now), age(found.touched_at, now)]
    return [found.id, found.stream, found.state, found.label, found.owner, *ages, found.why]


def _sender_cells(found: Sender) -> list[object]:
    counts = [size_text(found.position), f"{found.line:,}", f"{found.refused:,}", f"{found.blocked:,}", found.session]
    return [found.name, found.input, found.format, found.state, *counts]


def _result_cells(found: QueryView, now: datetime) -> list[object]:
    size = None if found.bytes is None else size_text(found.bytes)
    rows = None if found.rows is None else f"{found.rows:,}"
    told = (
        "all" if found.is_acknowledged else None if found.acknowledged_at is None else age(found.acknowledged_at, now)
    )
    return [found.query, found.kind, found.state, rows, size, told]
