"""All that can be cleaned, put together for one runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from towpath.boundary.result_files import uploads_root
from towpath.boundary.upload_janitor import UploadJanitor
from towpath.catalog.data_set_janitor import DataSetJanitor
from towpath.desk.bulk_janitor import BulkJanitor
from towpath.desk.opening import open_case_janitor
from towpath.desk.upkeep import DeskUpkeep
from towpath.log.open import is_in_sqlite
from towpath.maintenance.cleaning import Cleaning, Size
from towpath.maintenance.fetched import fetched, remove_fetched, users_of
from towpath.maintenance.living import others_alive, told
from towpath.maintenance.sizes import Rows, bytes_of
from towpath.runtime import Runtime
from towpath.service import Service

MOST_NAMED = 5
Run = Callable[[str, str], Mapping[str, int]]


def cleanings_of(runtime: Runtime) -> list[Cleaning]:
    """In the order in which people see them."""
    rows, access = Rows(runtime.database), runtime.access
    found = [
        Cleaning("queue-reap", "Lets messages die whose time ran out.", rows.of("count_messages"), _reap(runtime)),
        Cleaning(
            "queue",
            "Deletes finished messages, events and rows of ended processes that are past their time.",
            rows.of("count_messages", "count_events"),
            lambda who, why: runtime.queue.operator(who).clean(why),
        ),
        Cleaning(
            "desk",
            "Deletes settled cases, bulk jobs, groups, traces and what corrections have learned, past their time.",
            rows.of("count_cases"),
            _services(lambda: _desk(runtime)),
        ),
        Cleaning(
            "access",
            "Deletes rows of the trail, answers to requests, sessions and block rules that are past their time.",
            rows.of("count_audit"),
            lambda who, why: access.janitor().clean(),
        ),
        Cleaning(
            "complaints",
            "Deletes complaints that were settled long ago.",
            rows.of("count_complaints"),
            lambda who, why: {"complaints": runtime.complaints.janitor().clean()},
        ),
        Cleaning(
            "data-sets",
            "Ends deletions that were cut off, and forgets data sets that were deleted long ago.",
            rows.of("count_data_sets"),
            _services(lambda: [DataSetJanitor(runtime.data_sets, runtime.settings.catalog, runtime.events)]),
        ),
        Cleaning(
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


def _log(runtime: Runtime) -> Cleaning:
    def run(who: str, why: str) -> Mapping[str, int]:
        janitor = runtime.log_janitor()
        return {} if janitor is None else {"partitions": janitor.run_once().done}

    def size() -> Size:
        janitor = runtime.log_janitor()
        return Size(0 if janitor is None else janitor.size_bytes(), "bytes")

    return Cleaning("log", "Deletes records of topics that are past their time.", size, run)


def _database(runtime: Runtime) -> Cleaning:
    database = runtime.database

    def run(who: str, why: str) -> Mapping[str, int]:
        database.vacuum()
        return {}

    def hindrance() -> str | None:
        others = others_alive(database) if database.dialect == "sqlite" else []
        return f"{told(others)}, and SQLite lets nobody write until it is done" if others else None

    about = "Gives back the room that deleted rows have left, and counts anew what is there."
    return Cleaning("database", about, lambda: Size(database.size_bytes(), "bytes"), run, hindrance)


def _fetched(runtime: Runtime) -> Cleaning:
    def hindrance() -> str | None:
        if users := users_of(fetched()):
            return (
                f"{len(users)} processes were started with these files: pid {', '.join(map(str, users[:MOST_NAMED]))}"
            )
        others = others_alive(runtime.database)
        return f"{told(others)}, perhaps with these files" if others else None

    return Cleaning(
        "fetched-files",
        "Removes the jars and servers that were fetched; who needs them fetches them again.",
        lambda: bytes_of(fetched()),
        lambda who, why: {"removed": remove_fetched()},
        hindrance,
    )
