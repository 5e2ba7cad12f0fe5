"""How much of an upload's results has come: a line for each query on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from towpath.cli.failures import say
from towpath.cli.output import size_text
from towpath.cli.transfer_bar import SAME_WAIT_EVERY_S, TransferBar
from towpath.clock import Clock

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from towpath.client.receive_state import Received


def rows_text(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows:,} rows"


class ReceiveProgress(TransferBar):
    """Told by the thread that receives."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock, _columns)
        self._received: dict[str, Received] = {}
        self._first: dict[str, int] = {}  # rows that were there with the first page
        self._waited = ("", 0.0)

    def on_received(self, received: Received) -> None:
        self._received[received.query] = received
        if self._bar is not None:
            self._show(received)
        elif self._is_line_due():
            say(", ".join(f"{each.query}: {rows_text(each.rows)}" for each in self._received.values()))

    def on_wait(self, why: str, wait_s: float) -> None:
        said, at = self._waited
        if said != why or self._clock.monotonic() - at >= SAME_WAIT_EVERY_S:
            self._waited = (why, self._clock.monotonic())
            say(f"{why}; trying again")

    def _show(self, received: Received) -> None:
        assert self._bar is not None  # noqa: S101 - for the type checker
        rows = received.rows - self._first.setdefault(received.query, received.rows)
        rate = rows / max(self._clock.monotonic() - self._begun_at, 1e-6)
        note = f"{rows_text(received.rows)}, {size_text(received.bytes)}, {rate:,.0f}/s"
        if received.is_complete:
            note = f"{rows_text(received.rows)}, {size_text(received.bytes)}, complete"
        if received.query not in self._tasks:
            self._tasks[received.query] = self._bar.add_task(received.query, total=None, note=note)
        self._bar.update(self._tasks[received.query], note=note)


def _columns() -> Iterable[ProgressColumn]:
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    return (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
