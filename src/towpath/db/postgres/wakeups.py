"""Wake-ups between processes by LISTEN and NOTIFY.

Ringing is done by a thread with a connection of its own and after the commit, not inside it: a transaction that
notifies takes a lock of the whole database until it is on disk, which would make all senders wait in line. Rings that
come while one is being sent are sent together.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

import psycopg
from psycopg import sql

from towpath.db.wakeups import LocalWakeups, Wakeup
from towpath.errors import DatabaseError

logger = logging.getLogger(__name__)

Connect = Callable[[], psycopg.Connection[Any]]

LISTEN_ROUND_S = 0.5
LEAST_GAP_S = 0.003  # between two rings of a flood; the first after a rest goes out at once
PAUSE_WHEN_AWAY_S = 0.5


class PostgresWakeups:
    """Rings by NOTIFY on one channel. Its two threads start when they are first needed."""

    def __init__(self, connect: Connect, channel: str) -> None:
        self._connect = connect
        self._channel = channel
        self._local = LocalWakeups()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._listener: threading.Thread | None = None
        self._ringer: threading.Thread | None = None
        self._to_ring: set[str] = set()
        self._has_rings = threading.Event()

    def hang(self, name: str) -> Wakeup:
        wakeup = self._local.hang(name)
        with self._lock:
            if self._listener is None or not self._listener.is_alive():  # a fork leaves it behind
                self._listener = self._run(self._listen, "bells-listen")
        return wakeup

    def take_down(self, name: str, wakeup: Wakeup) -> None:
        self._local.take_down(name, wakeup)

    def ring(self, names: Iterable[str]) -> None:
        with self._lock:
            self._to_ring.update(names)
            if self._ringer is None or not self._ringer.is_alive():
                self._ringer = self._run(self._send, "bells-ring")
        self._has_rings.set()

    def close(self) -> None:
        if self._listener is not None and not self._closed.is_set():
            self.ring(("",))  # nobody has that name; it ends the listener's round
        self._closed.set()
        self._has_rings.set()
        for thread in (self._listener, self._ringer):
            if thread is not None and thread is not threading.current_thread():
                thread.join(2 * LISTEN_ROUND_S)

    def _run(self, target: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                with self._connect() as connection:
                    connection.execute(sql.SQL("listen {}").format(sql.Identifier(self._channel)))
                    self._local.ring_all()  # whatever was rung before this moment was not heard
                    while not self._closed.is_set():
                        for note in connection.notifies(timeout=LISTEN_ROUND_S):
                            self._local.ring(note.payload)
                            if self._closed.is_set():
                                break
            except (psycopg.Error, DatabaseError) as error:
                self._away("listening", error)

    def _send(self) -> None:
        while self._has_to_ring():
            try:
                with self._connect() as connection:
                    connection.execute("set synchronous_commit = off")  # a ring need not be on disk
                    while self._has_to_ring():
                        self._send_round(connection)
            except (psycopg.Error, DatabaseError) as error:
                self._away("ringing", error)
                if self._closed.is_set():
                    return

    def _has_to_ring(self) -> bool:
        # What was rung before the close still goes out: a command that sends one message ends right after it.
        return bool(self._to_ring) or not self._closed.is_set()

    def _send_round(self, connection: psycopg.Connection[Any]) -> None:
        self._has_rings.wait()
        self._has_rings.clear()
        with self._lock:
            names, self._to_ring = self._to_ring, set()
        for name in names:
            connection.execute("select pg_notify(%s, %s)", (self._channel, name))
        self._closed.wait(LEAST_GAP_S)

    def _away(self, doing: str, error: Exception) -> None:
        logger.debug("wake-ups: %s failed, inboxes poll until it works again: %s", doing, error)
        self._closed.wait(PAUSE_WHEN_AWAY_S)
