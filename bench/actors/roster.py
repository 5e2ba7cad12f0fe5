"""Who takes part, in which version, with which settings and under which contract."""

from __future__ import annotations

from bench.actors.lines import AT_ONCE, Part, Store
from bench.environment import towpath_version
from bench.queue.peers import PEERS
from towpath.settings import DatabaseSettings, ProcessSettings, QueueSettings

Row = tuple[str, str, str]


def rows(parts: tuple[Part, ...], stores: tuple[Store, ...], postgres: str | None) -> list[Row]:
    steps = [_towpath_steps(), _dbos()] if Part.STEPS in parts else []
    hosts = [_hosts()] if {Part.TAKEOVER, Part.SLEEPERS} & set(parts) else []
    servers = [] if postgres is None or Store.POSTGRES not in stores else [_postgres(postgres)]
    return [*steps, *hosts, *servers]


def _towpath_steps() -> Row:
    return (
        "towpath",
        towpath_version(),
        f"one host, actors.workers = {AT_ONCE}, all else at its defaults; SQLite with WAL, synchronous as named "
        f"(default {DatabaseSettings().synchronous.upper()}); five states with resume=RETRY and one field, then End "
        "with its clean-up; the states of several instances commit together; each state is a message that is kept",
    )


def _dbos() -> Row:
    return (
        "dbos",
        PEERS.versions["dbos"],
        f"a workflow of five steps, called directly by {AT_ONCE} threads or by one, which is faster than its queues; "
        "SQLite as it comes (rollback journal, synchronous FULL) or with the pragmas as named; no admin server; every "
        "step is a row that is kept",
    )


def _hosts() -> Row:
    process, queue = ProcessSettings(), QueueSettings()
    return (
        "hosts that are killed",
        towpath_version(),
        f"default settings: a lease of {process.lease_s:g} s, renewed every {process.heartbeat_s:g} s; the dead are "
        f"looked for every {queue.caretaker_s:g} s; on one machine",
    )


def _postgres(version: str) -> Row:
    return ("PostgreSQL", version, "default settings, fsync and synchronous_commit on, on the same machine")
