"""Staging races without sleeping: a thread is held at a crash point, inside its open transaction, until released."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import pytest

from towpath.core import crash
from towpath.core.crash import CrashPoint

T = TypeVar("T")


class Acting(Generic[T]):
    """Something done in a thread of its own; `result` waits for it and raises what it raised."""

    def __init__(self, act: Callable[[], T]) -> None:
        self._act = act
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def result(self, timeout_s: float = 60.0) -> T:
        self._thread.join(timeout_s)
        assert self.is_done, "it did not come to its end"
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def _run(self) -> None:
        try:
            self._value = self._act()
        except BaseException as error:
            self._error = error


class Hold:
    """The first thread that comes to the point waits there."""

    def __init__(self, point: CrashPoint) -> None:
        self._point = point
        self._lock = threading.Lock()
        self._is_free = True
        self.reached = threading.Event()
        self.released = threading.Event()

    def here(self, point: CrashPoint) -> None:
        with self._lock:
            mine = point is self._point and self._is_free
            self._is_free = self._is_free and not mine
        if mine:
            self.reached.set()
            assert self.released.wait(60), "nobody released the one that is held"


@contextmanager
def held_at(point: CrashPoint, act: Callable[[], T]) -> Iterator[tuple[Acting[T], Hold]]:
    """Run `act` in a thread until it comes to the point; it goes on when `released` is set."""
    hold = Hold(point)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crash, "here", hold.here)
        acting = Acting(act)
        try:
            assert hold.reached.wait(60), f"{point} was never reached"
            yield acting, hold
        finally:
            hold.released.set()
            acting._thread.join(60)
