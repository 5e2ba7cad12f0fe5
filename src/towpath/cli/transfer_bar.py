"""What is shown while something is sent or received: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Self

from towpath.cli.output import can_redraw
from towpath.clock import Clock, SystemClock

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

PLAIN_LINE_EVERY_S = 5.0
SAME_WAIT_EVERY_S = 30.0


class TransferBar:
    """Has bars inside its block, if there is a terminal."""

    def __init__(self, clock: Clock | None, columns: Callable[[], Iterable[ProgressColumn]]) -> None:
        self._clock = clock or SystemClock()
        self._begun_at = self._said_at = self._clock.monotonic()
        self._tasks: dict[str, TaskID] = {}
        self._bar = _bar(columns)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _is_line_due(self) -> bool:
        """Whether it is time for another line; then it counts as said."""
        is_due = self._clock.monotonic() - self._said_at >= PLAIN_LINE_EVERY_S
        if is_due:
            self._said_at = self._clock.monotonic()
        return is_due


def _bar(columns: Callable[[], Iterable[ProgressColumn]]) -> Progress | None:
    if not can_redraw(sys.stderr):
        return None
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns(), console=Console(stderr=True, highlight=False), transient=True)
