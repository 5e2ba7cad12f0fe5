"""A server that is killed, and comes back by itself after a while."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from soak.delivery import tree
from towpath.errors import ServerFailed
from towpath.stack.kafka import KafkaServer
from towpath.stack.postgres import PostgresServer
from towpath.stack.server import Server
from towpath.testing.clock import wait_until

LONGEST_AWAY_S = 4.0
GONE_S = 30.0
START_S = 120.0
AGAIN_S = 0.5


class Mortal:
    """Kills and restarts one server; on the same port, with the same data."""

    def __init__(self, server: Server, kill: Callable[[], None], pool: ThreadPoolExecutor) -> None:
        self._server = server
        self._kill = kill
        self._pool = pool
        self._start: Future[None] | None = None

    @property
    def is_up(self) -> bool:
        """Raises what kept it from coming back."""
        if self._start is None:
            return True
        if self._start.done():
            self._start.result()
            return True
        return False

    def kill(self, chance: float) -> None:
        """At once; how long it stays away is chance."""
        self._kill()
        self._start = self._pool.submit(self._come_back, chance * LONGEST_AWAY_S)

    def _come_back(self, after_s: float) -> None:
        time.sleep(after_s)
        deadline = time.monotonic() + START_S
        while True:
            try:
                return self._server.start()
            except ServerFailed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(AGAIN_S)


def mortal_kafka(server: KafkaServer, pool: ThreadPoolExecutor) -> Mortal:
    return Mortal(server, server.kill, pool)


def mortal_postgres(server: PostgresServer, pool: ThreadPoolExecutor) -> Mortal:
    return Mortal(server, lambda: _kill_postgres(server), pool)


def _kill_postgres(server: PostgresServer) -> None:
    """The postmaster and all that it has started. `PostgresServer.kill` is gentler: it lets them end themselves."""
    first = [found for pid in server.pids if (found := tree.find(pid)) is not None]
    everyone = [*first, *(each for one in first for each in tree.descendants(one.pid))]
    tree.send(everyone, signal.SIGKILL)
    wait_until(lambda: not any(map(tree.is_alive, everyone)), GONE_S, "the end of PostgreSQL's processes")
