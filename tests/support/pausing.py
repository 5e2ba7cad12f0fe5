"""Stopping a process by SIGSTOP where the others can go on."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from towpath.core.os_processes import is_standing_still
from towpath.db import Database
from towpath.db.sqlite.database import SqliteDatabase
from towpath.testing.clock import wait_until

LOCKED_S = 0.3  # nobody who lives holds the file for that long
ON_S = 0.05


def pause_without_a_lock(pid: int, database: Database) -> None:
    """Not in the middle of a transaction, which would keep everybody out of a SQLite database."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: is_standing_still(pid), what=f"{pid} stands still")
        if not (isinstance(database, SqliteDatabase) and _is_locked(database)):
            return
        os.kill(pid, signal.SIGCONT)
        time.sleep(ON_S)  # it has to get out of there


def _is_locked(database: SqliteDatabase) -> bool:
    """Either of its files."""
    return any(map(_is_file_locked, (database.path, database.beats.path)))


def _is_file_locked(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=LOCKED_S, isolation_level=None)) as connection:
        try:
            connection.execute("begin immediate")
            connection.execute("rollback")
        except sqlite3.OperationalError:
            return True
    return False
