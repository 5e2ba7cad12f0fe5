"""Ctrl-C and SIGTERM: the first lets what runs come to an end, such as a flow after its batch, the second leaves."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Protocol, Self

from towpath.cli.failures import INTERRUPTED

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LEAVE_WITHIN_S = 2.0
SHOW_CURSOR = b"\x1b[?25h\n"


class Stoppable(Protocol):
    """What runs and can be told to end."""

    def stop(self, reason: str, /) -> None:
        """Let it end soon; returns at once."""


class EndWish:
    """The wish that something ends, for the loop that waits for it.

    A handler of a signal can interrupt `wait` anywhere and then wish. An event would be locked in that moment.
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


class Stopping:
    """Listens to signals while something runs. Before it runs, a signal is an ordinary interruption."""

    def __init__(self, leave: Callable[[], None], grace_s: float | None = None) -> None:
        """`grace_s` is how long it may take to end after SIGTERM; a person who types Ctrl-C can type it again."""
        self._leave = leave  # what others should know when this process leaves at once
        self._grace_s = grace_s
        self._patience: threading.Timer | None = None
        self._run: Stoppable | None = None
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
        """Whether it is to be said that it is ending."""
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
        """The process's row is freed if that can be done quickly, so that a next start need not wait for its lease."""
        thread = threading.Thread(target=self._leave, daemon=True)
        thread.start()
        thread.join(LEAVE_WITHIN_S)
        if os.isatty(2):
            os.write(2, SHOW_CURSOR)
        os._exit(INTERRUPTED)
