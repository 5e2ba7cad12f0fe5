"""Programs on this machine."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from towpath.db.open import OLDEST_SQLITE
from towpath.db.sqlite import SqliteDatabase
from towpath.doctor.check import Check, absent, missing, ok, warning
from towpath.errors import BadSettings, NotInstalled
from towpath.spark.java import PACKAGE, find_java
from towpath.stack.postgres_programs import server_programs
from towpath.stack.server_user import server_user

OLDEST_PYTHON = (3, 11)
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LEAST_FREE_BYTES = 100_000_000
FEW_FREE_BYTES = 2_000_000_000


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
