"""What only the database knows, for all processes of a measurement."""

from __future__ import annotations

import time
from collections.abc import Callable

from towpath.db import Database
from towpath.db.database import Query

WITHIN_S = 300.0
LOOK_EVERY_S = 0.02


def number(database: Database, name: str, select: str) -> int:
    """What a counting statement says."""
    with database.glance() as tx:
        return int(tx.rows(Query(name, select, uses_now=False), {})[0][0])


def in_phase(database: Database, phase: str) -> int:
    return number(database, "in_phase", f"select count(*) from actor_instance where phase = '{phase}'")


def due_or_running(database: Database) -> int:
    """What is due, and what somebody has: both by an index, however many sleep."""
    return number(
        database,
        "due_or_running",
        f"select (select count(*) from actor_instance where due_at is not null and due_at <= {database.now()})"
        " + (select count(*) from actor_instance where owner is not null)",
    )


def wait_for(is_so: Callable[[], bool], what: str, within_s: float = WITHIN_S, every_s: float = LOOK_EVERY_S) -> None:
    until = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError(f"{what}: not within {within_s:g} s")
        time.sleep(every_s)
