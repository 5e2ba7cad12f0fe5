"""Everything that can be cleaned in an installation: how large it is, what cleans it, and what speaks against it now.

Services do all of it anyway when its time has come; here a person has it done at once.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from towpath.catalog.data_sets.service import DataSetJanitor
from towpath.core.clock import to_datetime
from towpath.core.service import Service
from towpath.db import Database, Queries
from towpath.db.processes import ProcessRow, ProcessStore
from towpath.desk.background import open_case_janitor
from towpath.desk.janitor import BulkJanitor, DeskUpkeep
from towpath.gateway.janitor import UploadJanitor
from towpath.gateway.outlet.store import uploads_root
from towpath.log.open import is_in_sqlite
from towpath.runtime import Runtime
from towpath.spark.artifacts import SETS, cache_directory
from towpath.stack.user import shared_directory

Unit = Literal["bytes", "rows"]
Run = Callable[[str, str], Mapping[str, int]]  # who wants it and why; returns how much was done of what
ROOT = 0  # whose servers run as somebody else, who may not reach its cache
ALIVE = "alive"  # the state of a process row
MOST_COUNTED = 200_000  # rows of a table
MOST_NAMED = 5  # processes in a hindrance
_PROC = Path("/proc")
_UNPACKED = re.compile(rf"\.?({'|'.join(SETS)})-[0-9a-f]{{12}}(\.lock|-.*)?")


class Size(NamedTuple):
    """How large something is. `is_more`: at least so many rows, further ones were not counted."""

    amount: int
    unit: Unit
    is_more: bool = False


@dataclass(frozen=True, slots=True)
class Cleanup:
    """Something that can be cleaned: how it is measured, and what cleans it."""

    name: str
    about: str
    size: Callable[[], Size]
    run: Run
    hindrance: Callable[[], str | None] = lambda: None  # why it should not be done now


def cleanings_of(runtime: Runtime) -> list[Cleanup]:
    """In the order in which people see them."""
    rows, access = RowCounter(runtime.database), runtime.access
    found = [
        Cleanup(
            "queue-reap",
            "Lets messages die whose time ran out.",
            rows.of("count_messages"),
            lambda who, why: {"expired": runtime.queue.operator(who).reap(why)},
        ),
        Cleanup(
            "queue",
            "Deletes finished messages, events and rows of ended processes that are past their time.",
            rows.of("count_messages", "count_events"),
            lambda who, why: runtime.queue.operator(who).clean(why),
        ),
        Cleanup(
            "desk",
            "Deletes settled cases, bulk jobs, groups, traces and what corrections have learned, past their time.",
            rows.of("count_cases"),
            _services(lambda: _desk(runtime)),
        ),
        Cleanup(
            "access",
            "Deletes rows of the trail, answers to requests, sessions and block rules that are past their time.",
            rows.of("count_audit"),
            lambda who, why: access.janitor().clean(),
        ),
        Cleanup(
            "complaints",
            "Deletes complaints that were settled long ago.",
            rows.of("count_complaints"),
            lambda who, why: {"complaints": runtime.complaints.janitor().clean()},
        ),
        Cleanup(
            "data-sets",
            "Ends deletions that were cut off, and forgets data sets that were deleted long ago.",
            rows.of("count_data_sets"),
            _services(lambda: [DataSetJanitor(runtime.data_sets, runtime.settings.catalog, runtime.events)]),
        ),
        Cleanup(
            "uploads",
            "Ends uploads as rules of expiry say, and removes what is left of those that have ended.",
            lambda: _bytes_of([uploads_root(runtime.settings)]),
            _services(lambda: [_uploads(runtime)]),
        ),
    ]
    if is_in_sqlite(runtime.settings.log, runtime.database):
        found.append(_log(runtime))
    return [*found, _database(runtime), _fetched_cleanup(runtime)]


def _services(make: Callable[[], list[Service]]) -> Run:
    """One round of services that do this anyway, now and then."""
    return lambda who, why: {service.name: service.run_once().done for service in make()}


def _desk(runtime: Runtime) -> list[Service]:
    settings, database, events = runtime.settings, runtime.database, runtime.events
    return [
        open_case_janitor(settings, database, events, runtime.event_log),
        BulkJanitor(database, settings.desk, events),
        DeskUpkeep(database, settings.desk, events),
    ]


def _uploads(runtime: Runtime) -> Service:
    settings = runtime.settings
    parts = (runtime.database, lambda: runtime.log, runtime.events, runtime.event_log)
    return UploadJanitor(uploads_root(settings), settings.gateway, *parts)


def _log(runtime: Runtime) -> Cleanup:
    def run(who: str, why: str) -> Mapping[str, int]:
        janitor = runtime.log_janitor()
        return {} if janitor is None else {"partitions": janitor.run_once().done}

    def size() -> Size:
        janitor = runtime.log_janitor()
        return Size(0 if janitor is None else janitor.size_bytes(), "bytes")

    return Cleanup("log", "Deletes records of topics that are past their time.", size, run)


def _database(runtime: Runtime) -> Cleanup:
    database = runtime.database

    def run(who: str, why: str) -> Mapping[str, int]:
        database.vacuum()
        return {}

    def hindrance() -> str | None:
        others = _others_alive(database) if database.dialect == "sqlite" else []
        return f"{_describe(others)}, and SQLite lets nobody write until it is done" if others else None

    about = "Gives back the room that deleted rows have left, and counts anew what is there."
    return Cleanup("database", about, lambda: Size(database.size_bytes(), "bytes"), run, hindrance)


def _fetched_cleanup(runtime: Runtime) -> Cleanup:
    def hindrance() -> str | None:
        if users := _users_of(fetched_files()):
            return (
                f"{len(users)} processes were started with these files: pid {', '.join(map(str, users[:MOST_NAMED]))}"
            )
        others = _others_alive(runtime.database)
        return f"{_describe(others)}, perhaps with these files" if others else None

    return Cleanup(
        "fetched-files",
        "Removes the jars and servers that were fetched; who needs them fetches them again.",
        lambda: _bytes_of(fetched_files()),
        lambda who, why: {"removed": _remove_fetched()},
        hindrance,
    )


class RowCounter:
    """Counts the rows of tables, as far as that is quick."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.admin", "sizes", database.dialect)

    def of(self, *queries: str) -> Callable[[], Size]:
        return lambda: self._count(queries)

    def _count(self, queries: Iterable[str]) -> Size:
        with self._database.read() as tx:
            counts = [int(tx.rows(self._sql[name], {"most": MOST_COUNTED})[0][0]) for name in queries]
        return Size(sum(counts), "rows", is_more=MOST_COUNTED in counts)


def fetched_files() -> list[Path]:
    """Directories and locks. Secrets of clusters lie in the same cache, and stay."""
    cache = cache_directory()
    homes = (cache, shared_directory()) if os.geteuid() == ROOT else (cache,)
    unpacked = [each for home in homes if home.is_dir() for each in home.iterdir() if _UNPACKED.fullmatch(each.name)]
    return [each for each in (cache / "artifacts", *unpacked) if each.exists()]


def _remove_fetched() -> int:
    """Delete all of it; returns how many sets and servers that were."""
    found, artifacts = fetched_files(), cache_directory() / "artifacts"
    sets = artifacts.iterdir() if artifacts.is_dir() else ()
    count = len([each for each in (*found, *sets) if each != artifacts and each.is_dir()])
    for each in found:
        if each.is_dir():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)
    return count


def _users_of(places: Sequence[Path]) -> list[int]:
    """Processes of this machine that were started with these files, whatever their project; empty without /proc."""
    names = [os.fsencode(each) for each in places]
    found = []
    for each in _PROC.glob("[0-9]*/cmdline"):
        try:
            command = each.read_bytes()
        except OSError:
            continue  # it is gone
        if any(name in command for name in names):
            found.append(int(each.parent.name))
    return sorted(found)


def _others_alive(database: Database) -> list[ProcessRow]:
    """All living processes but this one."""
    with database.beats.glance() as tx:
        found = ProcessStore(database).all(tx)
    me, now = (socket.gethostname(), os.getpid()), to_datetime(database.now())
    living = (each for each in found if each.state == ALIVE and each.lease_until > now)
    return [each for each in living if (each.host, each.pid) != me]


def _describe(processes: list[ProcessRow]) -> str:
    names = ", ".join(f"{each.kind or each.name} (pid {each.pid})" for each in processes[:MOST_NAMED])
    more = f" and {len(processes) - MOST_NAMED} more" if len(processes) > MOST_NAMED else ""
    return f"{len(processes)} other processes are at work: {names}{more}"


def _bytes_of(paths: Iterable[Path]) -> Size:
    """The size of what lies in directories, without what is deleted meanwhile."""
    return Size(sum(map(_bytes, paths)), "bytes")


def _bytes(root: Path) -> int:
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except FileNotFoundError:
                continue
    return total
