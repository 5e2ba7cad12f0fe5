"""Ctrl-C and SIGTERM: the first lets a flow end after its present batch, the second ends the process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Self

from towpath.cli.failures import INTERRUPTED

if TYPE_CHECKING:
    from towpath.flow.flow_run import FlowRun

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LEAVE_WITHIN_S = 2.0
SHOW_CURSOR = b"\x1b[?25h\n"


class Stopping:
    """Listens to signals while a flow runs. Before it runs, a signal is an ordinary interruption."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave  # what others should know when this process leaves at once
        self._run: FlowRun | None = None
        self._before: dict[signal.Signals, object] = {}
        self._count = 0
        self._is_told = False

    def __enter__(self) -> Self:
        for each in SIGNALS:
            self._before[each] = signal.signal(each, self._on_signal)
        return self

    def __exit__(self, *ignored: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)  # type: ignore[arg-type]

    def of(self, run: FlowRun) -> None:
        self._run = run

    def news(self) -> bool:
        """Whether it is to be said that the flow is ending."""
        is_news, self._is_told = self._count > 0 and not self._is_told, self._count > 0
        return is_news

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._count += 1
        if self._run is None:
            raise KeyboardInterrupt
        if self._count == 1:
            self._run.stop("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)
        else:
            self._leave_at_once()

    def _leave_at_once(self) -> None:
        """The process's row is freed if that can be done quickly, so that a next start need not wait for its lease."""
        thread = threading.Thread(target=self._leave, daemon=True)
        thread.start()
        thread.join(LEAVE_WITHIN_S)
        if os.isatty(2):
            os.write(2, SHOW_CURSOR)
        os._exit(INTERRUPTED)
