"""Who else is at work on the same database."""

from __future__ import annotations

import os
import socket

from towpath.clock import to_datetime
from towpath.db import Database
from towpath.db.processes import ProcessRow, ProcessStore

ALIVE = "alive"


def others_alive(database: Database) -> list[ProcessRow]:
    """All processes that live, but this one."""
    with database.beats.glance() as tx:
        found = ProcessStore(database).all(tx)
    me, now = (socket.gethostname(), os.getpid()), to_datetime(database.now())
    living = (each for each in found if each.state == ALIVE and each.lease_until > now)
    return [each for each in living if (each.host, each.pid) != me]


def told(processes: list[ProcessRow]) -> str:
    names = ", ".join(f"{each.kind or each.name} (pid {each.pid})" for each in processes[:5])
    more = f" and {len(processes) - 5} more" if len(processes) > 5 else ""
    return f"{len(processes)} other processes are at work: {names}{more}"
