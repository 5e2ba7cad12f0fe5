"""The two databases of the soak, and the two faults that each suffers in the middle of it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soak.queue.plan import SECTIONS
from towpath.stack.postgres import PostgresServer
from towpath.testing.servers import postgres_server

AWAY_S = SECTIONS["process"]["lease_s"] + 1.5  # longer than a lease: nobody alive may lose a claim all the same
LOCKED_S = 3.0


@dataclass(frozen=True)
class Fault:
    """Something that happens to the database."""

    name: str
    happen: Callable[[], None]


@dataclass(frozen=True)
class Store:
    """An empty database for one run."""

    settings: dict[str, Any]
    faults: tuple[Fault, Fault]


@contextmanager
def open_store(database: str, home: Path) -> Iterator[Store]:
    if database == "sqlite":
        path = home / "towpath.db"
        locked = Fault(f"write lock held for {LOCKED_S:g} s", lambda: _hold_lock(path))
        yield Store({"url": f"sqlite:///{path}"}, (locked, locked))
        return
    with postgres_server() as server:
        away = Fault(f"killed, away for {AWAY_S:g} s", lambda: _kill_for_a_while(server))
        yield Store({"url": server.url}, (Fault("restarted", server.restart), away))


def _kill_for_a_while(server: PostgresServer) -> None:
    server.kill()
    time.sleep(AWAY_S)
    server.start()


def _hold_lock(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as connection:
        connection.execute("begin immediate")
        time.sleep(LOCKED_S)
        connection.execute("rollback")
