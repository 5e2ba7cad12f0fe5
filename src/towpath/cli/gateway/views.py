"""How far sending and receiving have come, on standard error, and how uploads look."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from towpath.cli.context import say
from towpath.cli.output import Column, age, counted, print_fields, print_older, print_table, size_text, time_and_age
from towpath.cli.progress import SAME_WAIT_EVERY_S, TransferBar
from towpath.core.clock import Clock

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from towpath.client.protocol import Waiting
    from towpath.client.sender import Sent
    from towpath.client.state import ReceivedQuery
    from towpath.gateway.outlet.service import QueryView
    from towpath.gateway.uploads.model import StoredUpload, UploadSender, UploadStatus


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


class SendProgress(TransferBar):
    """How far each sender is; updated by the threads that send."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock, _send_columns)
        self._lock = threading.Lock()
        self._at: dict[str, tuple[int, int | None]] = {}  # how far of how many bytes
        self._from: dict[str, int] = {}  # what an earlier run had sent
        self._waits: dict[str, tuple[str, float]] = {}

    def on_sent(self, sent: Sent, size: int | None) -> None:
        with self._lock:
            self._from.setdefault(sent.sender, sent.place.position)
            self._at[sent.sender] = (sent.place.position, size)
            self._waits.pop(sent.sender, None)
            if self._bar is not None:
                self._show(sent.sender, "done" if sent.is_finished else "")
            elif self._is_line_due():
                say(self.text())

    def on_wait(self, sender: str) -> Waiting:
        def waiting(why: str, wait_s: float) -> None:
            with self._lock:
                if self._bar is not None:
                    self._show(sender, f"{why}; again in {wait_s:.0f} s")
                elif self._is_news(sender, why):
                    say(f"{sender}: {why}; trying again")

        return waiting

    def text(self) -> str:
        """All senders together: how much, how fast, how long yet."""
        done = sum(at for at, _ in self._at.values())
        rate = (done - sum(self._from.values())) / max(self._clock.monotonic() - self._begun_at, 1e-6)
        if any(size is None for _, size in self._at.values()):
            return f"{size_text(done)} sent, {size_text(rate)}/s"
        total = sum(size or 0 for _, size in self._at.values())
        left = f", {left_text((total - done) / rate)} left" if rate > 0 and done < total else ""
        return f"{size_text(done)} of {size_text(total)} sent, {size_text(rate)}/s{left}"

    def _is_news(self, sender: str, why: str) -> bool:
        said, at = self._waits.get(sender, ("", 0.0))
        if said == why and self._clock.monotonic() - at < SAME_WAIT_EVERY_S:
            return False
        self._waits[sender] = (why, self._clock.monotonic())
        return True

    def _show(self, sender: str, note: str) -> None:
        assert self._bar is not None  # noqa: S101 - for the type checker
        at, size = self._at.get(sender, (0, None))
        if sender not in self._tasks:
            self._tasks[sender] = self._bar.add_task(sender, total=size, completed=at, note=note)
        self._bar.update(self._tasks[sender], completed=at, total=size, note=note)


def left_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


class ReceiveProgress(TransferBar):
    """How far each query is; updated by the thread that receives."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock, _receive_columns)
        self._received: dict[str, ReceivedQuery] = {}
        self._first: dict[str, int] = {}  # rows that were there with the first page
        self._waited = ("", 0.0)

    def on_received(self, received: ReceivedQuery) -> None:
        self._received[received.query] = received
        if self._bar is not None:
            self._show(received)
        elif self._is_line_due():
            say(", ".join(f"{each.query}: {counted(each.rows, 'row')}" for each in self._received.values()))

    def on_wait(self, why: str, wait_s: float) -> None:
        said, at = self._waited
        if said != why or self._clock.monotonic() - at >= SAME_WAIT_EVERY_S:
            self._waited = (why, self._clock.monotonic())
            say(f"{why}; trying again")

    def _show(self, received: ReceivedQuery) -> None:
        assert self._bar is not None  # noqa: S101 - for the type checker
        rows = received.rows - self._first.setdefault(received.query, received.rows)
        rate = rows / max(self._clock.monotonic() - self._begun_at, 1e-6)
        far = "complete" if received.is_complete else f"{rate:,.0f}/s"
        note = f"{counted(received.rows, 'row')}, {size_text(received.bytes)}, {far}"
        if received.query not in self._tasks:
            self._tasks[received.query] = self._bar.add_task(received.query, total=None, note=note)
        self._bar.update(self._tasks[received.query], note=note)


def print_uploads(page: Sequence[StoredUpload], now: datetime, cursor: int | None) -> None:
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


def upload_item(found: StoredUpload) -> dict[str, Any]:
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


def _send_columns() -> Iterable[ProgressColumn]:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    return (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )


def _receive_columns() -> Iterable[ProgressColumn]:
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    return (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )


def _sender_item(found: UploadSender) -> dict[str, Any]:
    names = ("input", "format", "state", "session", "position", "line", "sequence", "refused", "blocked", "crc32")
    columns = None if found.columns is None else list(found.columns)
    return {"sender": found.name, "columns": columns, **{name: getattr(found, name) for name in names}}


def _result_item(found: QueryView) -> dict[str, Any]:
    names = ("query", "kind", "state", "rows", "bytes", "cursor", "acknowledged_at", "is_acknowledged")
    return {name: getattr(found, name) for name in names}


def _cells(found: StoredUpload, now: datetime) -> list[object]:
    ages = [age(found.opened_at, now), age(found.touched_at, now)]
    return [found.id, found.stream, found.state, found.label, found.owner, *ages, found.why]


def _sender_cells(found: UploadSender) -> list[object]:
    counts = [size_text(found.position), f"{found.line:,}", f"{found.refused:,}", f"{found.blocked:,}", found.session]
    return [found.name, found.input, found.format, found.state, *counts]


def _result_cells(found: QueryView, now: datetime) -> list[object]:
    size = None if found.bytes is None else size_text(found.bytes)
    rows = None if found.rows is None else f"{found.rows:,}"
    told = (
        "all" if found.is_acknowledged else None if found.acknowledged_at is None else age(found.acknowledged_at, now)
    )
    return [found.query, found.kind, found.state, rows, size, told]
