"""One connection for each thread, opened when first needed, after it broke and after a fork; all closed together."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from towpath.errors import DatabaseError


class Closable(Protocol):
    """A driver's connection."""

    def close(self) -> Any:
        """Close it."""


C = TypeVar("C", bound=Closable)

CLOSING_TIMEOUT_S = 5.0


class Held(Generic[C]):
    """A thread's connection. Whoever uses it has its lock, so that nobody closes it under a running statement."""

    __slots__ = ("__weakref__", "connection", "lock", "pid")

    def __init__(self, connection: C) -> None:
        self.connection = connection
        self.lock = threading.RLock()
        self.pid = os.getpid()

    def __del__(self) -> None:
        """Its thread has ended, or opens another in its place. One that was inherited by a fork is the parent's."""
        if self.pid == os.getpid():
            with contextlib.suppress(Exception):
                self.connection.close()


class Connections(Generic[C]):
    """The connections of all threads of this process to one database.

    A forked child opens its own. The inherited ones are kept without being used: letting go of them would close them,
    and that would end the parent's session with the server.
    """

    def __init__(self, connect: Callable[[], C], is_broken: Callable[[C], bool]) -> None:
        self._connect = connect
        self._is_broken = is_broken
        self._local = threading.local()
        self._all: weakref.WeakSet[Held[C]] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._is_closed = False
        self._over_fork: list[Held[C]] = []
        _everyone.add(self)

    def hold_over_fork(self) -> None:
        self._over_fork += self._all

    def let_go_after_fork(self) -> None:
        self._over_fork.clear()

    def mine(self) -> Held[C]:
        """The connection of this thread."""
        held: Held[C] | None = getattr(self._local, "held", None)
        if held is not None and held.pid == os.getpid() and not self._is_broken(held.connection):
            return held
        if self._is_closed:
            raise DatabaseError("this database was closed; open it again")
        held = Held(self._connect())
        self._local.held = held
        with self._lock:
            self._all.add(held)
        return held

    def close(self) -> None:
        """Close what no statement is running on. A thread that goes on all the same keeps its own until it ends."""
        self._is_closed = True
        with self._lock:
            for held in list(self._all):
                if held.pid == os.getpid() and held.lock.acquire(timeout=CLOSING_TIMEOUT_S):
                    try:
                        held.connection.close()
                    finally:
                        held.lock.release()
            self._all.clear()
        self._local = threading.local()


_everyone: weakref.WeakSet[Connections[Any]] = weakref.WeakSet()


def _before_fork() -> None:
    for connections in list(_everyone):
        connections.hold_over_fork()


def _after_fork_in_parent() -> None:
    for connections in list(_everyone):
        connections.let_go_after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent)
