"""One connection for each thread, opened when first needed, after it broke and after a fork; all closed together."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from towpath.errors import DatabaseError

CLOSING_TIMEOUT_S = 5.0
FORKING_TIMEOUT_S = 5.0


class Closable(Protocol):
    """A driver's connection."""

    def close(self) -> Any:
        """Close it."""


C = TypeVar("C", bound=Closable)


class Connections(Generic[C]):
    """The connections of all threads of this process to one database.

    A forked child opens its own. The inherited ones are kept without being used: letting go of them would close them,
    and that would end the parent's session with the server.

    A fork waits until no thread is inside a statement: SQLite would copy to the child the locks that the other threads
    have at that moment, in its memory and on the file, and nobody there would ever give them back.
    """

    def __init__(self, connect: Callable[[], C], is_broken: Callable[[C], bool]) -> None:
        self._connect = connect
        self._is_broken = is_broken
        self._local = threading.local()
        self._all: weakref.WeakSet[HeldConnection[C]] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._is_closed = False
        self._over_fork: list[HeldConnection[C]] = []
        self._stilled: list[HeldConnection[C]] = []
        self._number = next(_numbers)
        _everyone.add(self)

    def hold_over_fork(self) -> None:
        self._lock.acquire()  # until it is over: nobody opens another meanwhile
        self._over_fork = list(self._all)
        deadline = time.monotonic() + FORKING_TIMEOUT_S
        for held in self._over_fork:
            if held.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
                self._stilled.append(held)

    def let_go_after_fork(self) -> None:
        for held in self._stilled:
            held.lock.release()
        self._stilled.clear()
        self._over_fork.clear()
        self._lock.release()

    def open_again_in_child(self) -> None:
        """The connections themselves stay with the parent."""
        self._lock.release()

    def mine(self) -> HeldConnection[C]:
        """The connection of this thread."""
        held: HeldConnection[C] | None = getattr(self._local, "held", None)
        if held is not None and held.pid == os.getpid() and not self._is_broken(held.connection):
            return held
        if self._is_closed:
            raise DatabaseError("this database was closed; open it again")
        opening: HeldConnection[C] = HeldConnection()
        with self._lock:
            self._all.add(opening)
        opening.open(self._connect)
        self._local.held = opening
        return opening

    def close(self) -> None:
        """Close the connections that no statement is running on. A thread that goes on keeps its own until it ends."""
        self._is_closed = True
        with self._lock:
            for held in list(self._all):
                if held.pid == os.getpid() and held.lock.acquire(timeout=CLOSING_TIMEOUT_S):
                    try:
                        held.close()
                    finally:
                        held.lock.release()
            self._all.clear()
        self._local = threading.local()


class HeldConnection(Generic[C]):
    """A thread's connection. It is used under its lock, so that nobody closes it under a running statement."""

    __slots__ = ("__weakref__", "connection", "lock", "pid")

    connection: C

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.pid = os.getpid()

    def open(self, connect: Callable[[], C]) -> None:
        with self.lock:
            self.connection = connect()

    def close(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()

    def __del__(self) -> None:
        """Its thread has ended, or opens another in its place. One that was inherited by a fork is the parent's."""
        if self.pid == os.getpid():
            with contextlib.suppress(Exception):
                self.close()


_everyone: weakref.WeakSet[Connections[Any]] = weakref.WeakSet()
_numbers = itertools.count()
_held_over_fork: list[Connections[Any]] = []
_forking = threading.Lock()  # one fork at a time


def _before_fork() -> None:
    """Lock all in the order in which they were made: a thread that is inside one may want the next."""
    _forking.acquire()
    _held_over_fork[:] = sorted(_everyone, key=lambda connections: connections._number)
    for connections in _held_over_fork:
        connections.hold_over_fork()


def _after_fork_in_parent() -> None:
    for connections in _held_over_fork:
        connections.let_go_after_fork()
    _held_over_fork.clear()
    _forking.release()


def _after_fork_in_child() -> None:
    for connections in _held_over_fork:
        connections.open_again_in_child()
    _held_over_fork.clear()
    _forking.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
