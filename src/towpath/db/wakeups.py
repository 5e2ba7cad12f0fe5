"""Wake-ups between processes: whoever writes rings a name, whoever waits for that name wakes within milliseconds.

A ring carries a name (an inbox) and nothing else; the waiter then looks in the database. A lost ring costs one slow
poll, never a message, so nothing here needs to be reliable.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Protocol


class Wakeup:
    """One waiter's wake-up. Clear it, look for work, then wait: a ring in between is not lost."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def ring(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    def wait(self, timeout_s: float) -> bool:
        return self._event.wait(timeout_s)


class Wakeups(Protocol):
    """All the names of one database."""

    def hang(self, name: str) -> Wakeup:
        """A new bell that rings when anyone, in any process, rings the name."""

    def take_down(self, name: str, wakeup: Wakeup) -> None:
        """Stop ringing this bell."""

    def ring(self, names: Iterable[str]) -> None:
        """Wake everybody who waits for one of the names. Never blocks, never raises."""

    def close(self) -> None:
        """Stop listening."""


class LocalWakeups:
    """The bells that hang in this process, by name."""

    def __init__(self) -> None:
        self._bells: dict[str, tuple[Wakeup, ...]] = {}
        self._lock = threading.Lock()

    def hang(self, name: str) -> Wakeup:
        wakeup = Wakeup()
        with self._lock:
            self._bells[name] = (*self._bells.get(name, ()), wakeup)
        return wakeup

    def take_down(self, name: str, wakeup: Wakeup) -> None:
        with self._lock:
            left = tuple(other for other in self._bells.get(name, ()) if other is not wakeup)
            if left:
                self._bells[name] = left
            else:
                self._bells.pop(name, None)

    def ring(self, name: str) -> None:
        """Also who waits for all of a family: `family:*` is rung by every `family:name`."""
        family = f"{name.partition(':')[0]}:*"
        for wakeup in (*self._bells.get(name, ()), *self._bells.get(family, ())):
            wakeup.ring()

    def ring_all(self) -> None:
        for wakeups in list(self._bells.values()):
            for wakeup in wakeups:
                wakeup.ring()
