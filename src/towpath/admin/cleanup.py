"""Something that can be cleaned.

All that can be cleaned, put together for one runtime.

Jars and servers that were fetched: all that lies in the cache and can be fetched again.

Who else is at work on the same database.

How large things are.
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


class Size(NamedTuple):
    """How large something is. `is_more`: at least so many rows, further ones were not counted."""

    amount: int
    unit: Unit
    is_more: bool = False


@dataclass(frozen=True, slots=True)
class Cleanup:
    """How it is measured, and what cleans it: a function of who wants it and why, that says how much of what it did."""

    name: str
    about: str
    size: Callable[[], Size]
    run: Callable[[str, str], Mapping[str, int]]
    hindrance: Callable[[], str | None] = lambda: None  # why it should not be done now


ROOT = 0  # whose servers run as somebody else, who may not reach its cache
_PROC = Path("/proc")
_UNPACKED = re.compile(rf"\.?({'|'.join(SETS)})-[0-9a-f]{{12}}(\.lock|-.*)?")


def fetched() -> list[Path]:
    """Directories and locks. Secrets of clusters lie in the same cache, and stay."""
    cache = cache_directory()
    homes = (cache, shared_directory()) if os.geteuid() == ROOT else (cache,)
    unpacked = [each for home in homes if home.is_dir() for each in home.iterdir() if _UNPACKED.fullmatch(each.name)]
    return [each for each in (cache / "artifacts", *unpacked) if each.exists()]


def remove_fetched() -> int:
    """Delete all of it; returns how many sets and servers that were."""
    found, artifacts = fetched(), cache_directory() / "artifacts"
    sets = artifacts.iterdir() if artifacts.is_dir() else ()
    count = len([each for each in (*found, *sets) if each != artifacts and each.is_dir()])
    for each in found:
        if each.is_dir():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)
    return count


def users_of(places: Sequence[Path]) -> list[int]:
    """Processes of this machine that were started with these files, of whatever project; nobody where it is unknown."""
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


MOST_COUNTED = 200_000


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


def bytes_of(paths: Iterable[Path]) -> Size:
    """What lies in directories; what is deleted meanwhile counts nothing."""
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


MOST_NAMED = 5
Run = Callable[[str, str], Mapping[str, int]]


def cleanings_of(runtime: Runtime) -> list[Cleanup]:
    """In the order in which people see them."""
    rows, access = RowCounter(runtime.database), runtime.access
    found = [
        Cleanup("queue-reap", "Lets messages die whose time ran out.", rows.of("count_messages"), _reap(runtime)),
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
            lambda: bytes_of([uploads_root(runtime.settings)]),
            _services(lambda: [_uploads(runtime)]),
        ),
    ]
    if is_in_sqlite(runtime.settings.log, runtime.database):
        found.append(_log(runtime))
    return [*found, _database(runtime), _fetched(runtime)]


def _reap(runtime: Runtime) -> Run:
    return lambda who, why: {"expired": runtime.queue.operator(who).reap(why)}


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
        others = others_alive(database) if database.dialect == "sqlite" else []
        return f"{told(others)}, and SQLite lets nobody write until it is done" if others else None

    about = "Gives back the room that deleted rows have left, and counts anew what is there."
    return Cleanup("database", about, lambda: Size(database.size_bytes(), "bytes"), run, hindrance)


def _fetched(runtime: Runtime) -> Cleanup:
    def hindrance() -> str | None:
        if users := users_of(fetched()):
            return (
                f"{len(users)} processes were started with these files: pid {', '.join(map(str, users[:MOST_NAMED]))}"
            )
        others = others_alive(runtime.database)
        return f"{told(others)}, perhaps with these files" if others else None

    return Cleanup(
        "fetched-files",
        "Removes the jars and servers that were fetched; who needs them fetches them again.",
        lambda: bytes_of(fetched()),
        lambda who, why: {"removed": remove_fetched()},
        hindrance,
    )
