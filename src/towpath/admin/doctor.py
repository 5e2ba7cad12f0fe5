"""All checks of `towpath doctor`: the programs on this machine, and whether the database lies where it can work."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from towpath.admin.checks import Check, Purpose, absent, missing, ok, warning
from towpath.core.clock import MICROS
from towpath.core.logs import without_password
from towpath.db import Database
from towpath.db.open import OLDEST_SQLITE, SQLITE_PREFIX, connect_database, pending, targets
from towpath.db.sqlite.database import SqliteDatabase
from towpath.errors import BadSettings, DatabaseError, NotInstalled, SchemaTooNew, TowpathError
from towpath.settings import DatabaseSettings, load
from towpath.spark.java import PACKAGE, find_java
from towpath.stack.postgres import server_programs
from towpath.stack.user import server_user

OLDEST_PYTHON = (3, 11)
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LEAST_FREE_BYTES = 100_000_000
FEW_FREE_BYTES = 2_000_000_000
MOST_SKEW_S = 2.0  # between the clocks of the database and of this machine
RING_TIMEOUT_S = 2.0


def examine(flags: dict[str, Any], config: Path | None, purposes: Collection[Purpose]) -> list[Check]:
    """Look at everything. What a purpose needs is missing when it is not there; otherwise that is a warning."""
    checks = [python(), sqlite()]
    java_home = ""
    try:
        settings = load(flags, config)
    except (BadSettings, OSError) as error:
        checks.append(missing("settings", str(error), "mend it, or leave it away"))
    else:
        checks.append(ok("settings", "readable"))
        checks += _examine_store(settings.database)
        java_home = settings.spark.java_home
    return [
        *checks,
        java(is_needed=Purpose.FLOWS in purposes, java_home=java_home),
        postgres(is_needed=Purpose.TEST in purposes),
        chromium(),
    ]


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Check:
    text = ".".join(map(str, version))
    if version < OLDEST_PYTHON:
        return missing("Python", text, "install Python 3.11 or newer")
    return ok("Python", text)


def sqlite() -> Check:
    with TemporaryDirectory() as directory:
        database = SqliteDatabase(Path(directory) / "try.db", is_beats=True)
        try:
            found: str = database.connection().execute("select sqlite_version()").fetchone()[0]
        finally:
            database.close()
    if tuple(map(int, found.split("."))) < OLDEST_SQLITE:
        return missing("SQLite", found, f"use a Python with SQLite {'.'.join(map(str, OLDEST_SQLITE))} or newer")
    return ok("SQLite", found)


def java(*, is_needed: bool, java_home: str = "") -> Check:
    try:
        found = find_java(java_home)
    except NotInstalled as error:
        unfit = f"; {error.what}" if "found" in error.what else ""
        return absent("Java", f"flows on Spark and the local Kafka need it{unfit}", PACKAGE, is_needed=is_needed)
    except BadSettings as error:
        return missing("Java", str(error), "mend spark.java_home, or leave it empty")
    return ok("Java", f"{found.version} ({found.program})")


def postgres(*, is_needed: bool) -> Check:
    try:
        return ok("PostgreSQL server", str(server_programs(server_user())))
    except NotInstalled as error:
        found = absent("PostgreSQL server", "the tests need it", "postgresql", is_needed=is_needed)
        return replace(found, remedy=f"{error.remedy}, or {found.remedy}")
    except OSError:  # looking for it needs other programs, which are not there either
        return absent("PostgreSQL server", "the tests need it", "postgresql", is_needed=is_needed)


def chromium() -> Check:
    program = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if program is None:
        return absent("Chromium", "tests of the console will need it", "chromium", is_needed=False)
    return ok("Chromium", program)


def disk(directory: Path) -> Check:
    free = shutil.disk_usage(directory).free
    text = f"{free / 1e9:.1f} GB free at {directory}"
    if free < LEAST_FREE_BYTES:
        return missing("disk space", text, "make room: a full disk stops every writer")
    if free < FEW_FREE_BYTES:
        return warning("disk space", text, "make room soon")
    return ok("disk space", text)


def _examine_store(settings: DatabaseSettings) -> Iterator[Check]:
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
            wakeup = waiter.wakeups.hang("doctor")
            started = time.monotonic()
            ringer.wakeups.ring(["doctor"])
            if wakeup.wait(RING_TIMEOUT_S):
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
