"""How a start looks while it goes on: one moving line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from towpath.cli.failures import say
from towpath.cli.output import can_redraw

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status as MovingLine

    from towpath.spark.artifacts import Progress

PLAIN_LINE_EVERY_S = 5.0
MEGABYTE = 1_000_000


class Show:
    """Tells on standard error what is being fetched and started; the line is gone at the end."""

    def __init__(self) -> None:
        self._console: Console | None = None
        self._line: MovingLine | None = None
        self._last_phase = ""
        self._last_line_at = 0.0

    def __enter__(self) -> Show:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._line is not None:
            self._line.stop()

    def fetching(self, progress: Progress) -> None:
        if progress.is_waiting:
            self._tell(f"waiting for another process that is fetching {progress.name}", " …")
            return
        done, total = progress.bytes / MEGABYTE, progress.bytes_total / MEGABYTE
        files = f"{progress.files} of {progress.files_total} files, " if progress.files_total > 1 else ""
        self._tell(f"fetching {progress.name}", f": {files}{done:.0f} of {total:.0f} MB")

    def starting(self, names: Sequence[str], seconds: float) -> None:
        self._tell(f"starting {', '.join(names)}", f" … {seconds:.0f} s")

    def say(self, text: str) -> None:
        if self._line is not None and self._console is not None:
            self._console.print(text)
        else:
            say(text)

    def _tell(self, phase: str, detail: str) -> None:
        if can_redraw(sys.stderr):
            self._move(phase + detail)
        elif phase != self._last_phase or time.monotonic() - self._last_line_at >= PLAIN_LINE_EVERY_S:
            self._last_phase, self._last_line_at = phase, time.monotonic()
            say(phase + detail)

    def _move(self, text: str) -> None:
        if self._line is None and self._console is not None:
            self._line = self._console.status(text)
            self._line.start()
        elif self._line is not None:
            self._line.update(text)
