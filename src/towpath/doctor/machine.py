"""Programs on this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from towpath.db.open import OLDEST_SQLITE
from towpath.db.sqlite import SqliteDatabase
from towpath.doctor.check import Check, absent, missing, ok, warning
from towpath.errors import NotInstalled
from towpath.stack.postgres_programs import server_programs, server_user

OLDEST_PYTHON = (3, 11)
JAVAS = (17, 21)
JAVA_PACKAGE = "openjdk-17-jre-headless"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ASK_TIMEOUT_S = 20
LEAST_FREE_BYTES = 100_000_000
FEW_FREE_BYTES = 2_000_000_000

_JAVA_VERSION = re.compile(r'version "(\d+)')


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


def java(*, is_needed: bool) -> Check:
    program = shutil.which("java")
    if program is None:
        return absent("Java", "flows on Spark need it", JAVA_PACKAGE, is_needed=is_needed)
    said = subprocess.run(
        [program, "-version"], capture_output=True, text=True, errors="replace", timeout=ASK_TIMEOUT_S, check=False
    )
    found = _JAVA_VERSION.search(said.stderr + said.stdout)
    version = int(found[1]) if found else None
    if version in JAVAS:
        return ok("Java", f"{version} ({program})")
    what_for = f"flows on Spark need 17 or 21, {program} is {version or 'none that works'}"
    return absent("Java", what_for, JAVA_PACKAGE, is_needed=is_needed)


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
