"""How far long work has come: a bar on a terminal, a line now and then elsewhere; on standard error."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

from towpath.cli.failures import say
from towpath.cli.output import can_redraw

if TYPE_CHECKING:
    from rich.progress import Progress

PLAIN_LINE_EVERY_S = 5.0
BAR_AFTER_S = 0.5


def counted(records: int) -> str:
    return "1 record" if records == 1 else f"{records:,} records"


class Counting:
    """Records so far and how many a second. Work that is done in a moment shows nothing."""

    def __init__(self, verb: str, total: int | None = None) -> None:
        self._verb = verb
        self._total = total
        self._begun_at = self._said_at = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def elapsed_s(self) -> float:
        return max(1e-6, time.monotonic() - self._begun_at)

    def rate(self, done: int) -> str:
        return f"{done / self.elapsed_s:,.0f}/s"

    def show(self, done: int, completed: int | None = None) -> None:
        """`completed` is for the bar when the total is of something else than records."""
        if self._bar is None and self.elapsed_s > BAR_AFTER_S:
            self._begin_bar()
        text = f"{counted(done)} {self._verb}, {self.rate(done)}"
        if self._bar is not None:
            self._bar.update(self._task, completed=done if completed is None else completed, text=text)
        elif time.monotonic() - self._said_at >= PLAIN_LINE_EVERY_S:
            self._said_at = time.monotonic()
            say(text)

    def _begin_bar(self) -> None:
        if not can_redraw(sys.stderr):
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.fields[text]}"), BarColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)
        self._task = self._bar.add_task("", total=self._total, text="")
        self._bar.start()
