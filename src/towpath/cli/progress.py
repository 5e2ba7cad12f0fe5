"""What long work shows on standard error, and how it is stopped.

Progress is a bar on a terminal and a line now and then elsewhere. The first Ctrl-C or SIGTERM lets what runs come to
an end, such as a flow after its batch; the second leaves at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Protocol, Self

from towpath.cli.context import INTERRUPTED, say
from towpath.cli.output import can_redraw, counted
from towpath.core.clock import Clock, SystemClock

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID


PLAIN_LINE_EVERY_S = 5.0
BAR_AFTER_S = 0.5
SAME_WAIT_EVERY_S = 30.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)
LEAVE_WITHIN_S = 2.0
SHOW_CURSOR = b"\x1b[?25h\n"


class RecordProgress:
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
        """`completed` moves the bar when its total does not count records."""
        if self._bar is None and self.elapsed_s > BAR_AFTER_S:
            self._begin_bar()
        text = f"{counted(done, 'record')} {self._verb}, {self.rate(done)}"
        if self._bar is not None:
            self._bar.update(self._task, completed=done if completed is None else completed, text=text)
        elif time.monotonic() - self._said_at >= PLAIN_LINE_EVERY_S:
            self._said_at = time.monotonic()
            say(text)

    def _begin_bar(self) -> None:
        if not can_redraw(sys.stderr):
            return
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

        self._bar = transient_bar(TextColumn("{task.fields[text]}"), BarColumn(), TimeElapsedColumn())
        self._task = self._bar.add_task("", total=self._total, text="")
        self._bar.start()


class TransferBar:
    """Shows bars of these columns inside its block, if there is a terminal."""

    def __init__(self, clock: Clock | None, columns: Callable[[], Iterable[ProgressColumn]]) -> None:
        self._clock = clock or SystemClock()
        self._begun_at = self._said_at = self._clock.monotonic()
        self._tasks: dict[str, TaskID] = {}
        self._bar = transient_bar(*columns()) if can_redraw(sys.stderr) else None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _is_line_due(self) -> bool:
        """Whether the next line is due; if so, the wait for the one after it begins."""
        is_due = self._clock.monotonic() - self._said_at >= PLAIN_LINE_EVERY_S
        if is_due:
            self._said_at = self._clock.monotonic()
        return is_due


def transient_bar(*columns: ProgressColumn) -> Progress:
    """Bars on standard error that are gone at their end."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)


class Stoppable(Protocol):
    """Something that runs and can be asked to end."""

    def stop(self, reason: str, /) -> None:
        """Let it end soon; returns at once."""


class StopRequest:
    """A request to end, for the loop that waits for it.

    A signal handler can interrupt `wait` anywhere and call `stop`. A `threading.Event` would be locked at that moment.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._bell: SimpleQueue[None] = SimpleQueue()

    def stop(self, _: str, /) -> None:
        self._is_set = True
        self._bell.put(None)

    def wait(self, seconds: float) -> bool:
        if not self._is_set:
            with suppress(Empty):
                self._bell.get(timeout=seconds)
        return self._is_set

    def is_set(self) -> bool:
        return self._is_set


class SignalHandler:
    """Listens to signals while something runs. Before it runs, a signal is an ordinary interruption."""

    def __init__(
        self,
        leave: Callable[[], None] = lambda: None,
        grace_s: float | None = None,
        *,
        run: Stoppable | None = None,
    ) -> None:
        """`run` is what a signal stops; `leave` tells others when this process leaves at once.

        `grace_s` is how long it may take to end after SIGTERM; a person who types Ctrl-C can type it again.
        """
        self._leave = leave
        self._grace_s = grace_s
        self._patience: threading.Timer | None = None
        self._run = run
        self._before: dict[signal.Signals, object] = {}
        self._count = 0
        self._is_told = False

    def __enter__(self) -> Self:
        for each in SIGNALS:
            self._before[each] = signal.signal(each, self._on_signal)
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._patience is not None:
            self._patience.cancel()
        for each, handler in self._before.items():
            signal.signal(each, handler)  # type: ignore[arg-type]

    def of(self, run: Stoppable) -> None:
        self._run = run

    def news(self) -> bool:
        """Whether the end was asked for since the last call, so that it can be said once."""
        is_news, self._is_told = self._count > 0 and not self._is_told, self._count > 0
        return is_news

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._count += 1
        if self._run is None:
            raise KeyboardInterrupt
        if self._count == 1:
            self._allow(number)
            self._run.stop("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)
        else:
            self._leave_at_once()

    def _allow(self, number: int) -> None:
        if number == signal.SIGTERM and self._grace_s is not None:
            self._patience = threading.Timer(self._grace_s, self._leave_at_once)
            self._patience.daemon = True
            self._patience.start()

    def _leave_at_once(self) -> None:
        """Leave now. `leave` may free the process's row first, so that a next start need not wait for its lease."""
        thread = threading.Thread(target=self._leave, daemon=True)
        thread.start()
        thread.join(LEAVE_WITHIN_S)
        if os.isatty(2):
            os.write(2, SHOW_CURSOR)
        os._exit(INTERRUPTED)
