"""The database: whether it can be reached, has the right tables, and lies where it can work."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from towpath.clock import MICROS
from towpath.db import Database
from towpath.db.migration_targets import targets
from towpath.db.migrations import pending
from towpath.db.open import SQLITE_PREFIX, connect_database
from towpath.db.sqlite import SqliteDatabase
from towpath.doctor.check import Check, missing, ok, warning
from towpath.doctor.machine import disk
from towpath.errors import DatabaseError, SchemaTooNew, TowpathError
from towpath.logs import without_password
from towpath.settings import DatabaseSettings

MOST_SKEW_S = 2.0
RING_TIMEOUT_S = 2.0


def examine(settings: DatabaseSettings) -> Iterator[Check]:
    if settings.url.startswith(SQLITE_PREFIX):
        yield from _examine_sqlite(settings)
    else:
        yield from _examine_server(settings)


def _examine_sqlite(settings: DatabaseSettings) -> Iterator[Check]:
    path = Path(settings.url.removeprefix(SQLITE_PREFIX)).expanduser().absolute()
    if not path.parent.is_dir():
        yield missing("database", f"{settings.url}: no directory {path.parent}", f"mkdir -p {path.parent}")
        return
    yield disk(path.parent)
    yield _wal(path.parent)
    if path.exists():
        yield _tables(settings)
    else:
        yield ok("database", f"{settings.url} is made at its first use")
    yield _bells()


def _examine_server(settings: DatabaseSettings) -> Iterator[Check]:
    yield disk(Path(tempfile.gettempdir()))
    tables = _tables(settings)
    yield tables
    if not tables.remedy:
        yield _clock(settings)


def _tables(settings: DatabaseSettings) -> Check:
    shown = without_password(settings.url)
    try:
        database = connect_database(settings)
        try:
            lacking = [step.name for target in targets(database) for step in pending(target)]
        finally:
            database.close()
    except SchemaTooNew as error:
        return missing("database", str(error), "install the newer Towpath here")
    except TowpathError as error:
        return missing("database", str(error), "start it, or mend database.url")
    if not lacking:
        return ok("database", f"{shown}, all migrations applied")
    return warning("database", f"{shown} lacks {', '.join(lacking)}", "towpath schema upgrade")


def _wal(directory: Path) -> Check:
    """A try in the very directory: network file systems often say yes to everything and lock nothing."""
    name = "write-ahead log"
    try:
        with tempfile.TemporaryDirectory(dir=directory, prefix=".towpath-doctor-") as scratch:
            first, second = (SqliteDatabase(Path(scratch) / "try.db", lock_timeout_s=0.1, is_beats=True) for _ in "ab")
            try:
                mode = first.connection().execute("pragma journal_mode").fetchone()[0]
                excludes = _excludes(first, second)
            finally:
                first.close()
                second.close()
    except (OSError, DatabaseError) as error:
        return missing(name, f"cannot write in {directory}: {error}", "put the database where you may write")
    if mode != "wal" or not excludes:
        return missing(name, f"does not work in {directory}", "put the database on a local disk, or use PostgreSQL")
    return ok(name, f"works in {directory}")


def _excludes(first: Database, second: Database) -> bool:
    """Whether one writer keeps another out."""
    with first.transaction():
        try:
            with second.transaction():
                return False
        except DatabaseError:
            return True


def _bells() -> Check:
    """A ring from one database object to another, as between two processes."""
    name = "wake-ups"
    with tempfile.TemporaryDirectory() as scratch:
        waiter, ringer = (SqliteDatabase(Path(scratch) / "try.db", is_beats=True) for _ in "ab")
        try:
            bell = waiter.bells.hang("doctor")
            started = time.monotonic()
            ringer.bells.ring(["doctor"])
            if bell.wait(RING_TIMEOUT_S):
                return ok(name, f"by Unix socket, {(time.monotonic() - started) * 1000:.1f} ms")
            found = f"no ring within {RING_TIMEOUT_S:g} s"
        except OSError as error:
            found = str(error)
        finally:
            waiter.close()
            ringer.close()
    return warning(name, f"{found}; inboxes poll", f"make a directory of yours usable in {tempfile.gettempdir()}")


def _clock(settings: DatabaseSettings) -> Check:
    database = connect_database(settings)
    try:
        asked = time.time()
        there = database.now() / MICROS
        skew_s = there - (asked + time.time()) / 2
    finally:
        database.close()
    text = f"{abs(skew_s):.2f} s {'ahead of' if skew_s > 0 else 'behind'} this machine"
    if abs(skew_s) > MOST_SKEW_S:
        return warning("database's clock", text, "set both by NTP: logs and tables show different times")
    return ok("database's clock", text)
