"""One whole run: everything on each store."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.console.addresses import addresses
from bench.console.asking import times_s
from bench.console.crowd import Crowd
from bench.console.filling import fill
from bench.console.findings import crowd_finding, list_finding, seen_finding
from bench.console.introduction import introduction
from bench.console.plan import TITLES, Part, Plan, Store
from bench.console.seeing import delays_s
from bench.console.serving import Served, served
from bench.environment import towpath_version
from bench.findings import Finding
from bench.rows_report import Report
from towpath import settings
from towpath.runtime import Runtime
from towpath.stack.postgres import PostgresServer
from towpath.testing.servers import postgres_server


class Run:
    """Carries out a plan."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._findings: list[Finding] = []
        self._failures: list[str] = []

    def report(self) -> Report:
        versions = [("Towpath", towpath_version(), "defaults")]
        with ExitStack() as open_things:
            postgres = None
            if Store.POSTGRES in self._plan.stores:
                postgres = open_things.enter_context(postgres_server())
                versions.append(("PostgreSQL", postgres.version, "as `towpath stack up postgres` has it"))
            for store in self._plan.stores:
                self._measure(store, postgres)
        return Report(
            title="Console",
            command="make bench-console",
            findings=self._findings,
            peers=versions,
            failures=self._failures,
            introduction=introduction(self._plan),
            machine=f"Machine: {os.cpu_count()} cores, shared with the browser and whoever asks; Python "
            f"{platform.python_version()}; SQLite {sqlite3.sqlite_version}.",
        )

    def _measure(self, store: Store, postgres: PostgresServer | None) -> None:
        plan, place = self._plan, TITLES[store]
        parts: dict[Part, Callable[[Served, str], None]] = {
            Part.LISTS: self._lists,
            Part.SEEN: self._seen,
            Part.CROWD: self._crowd,
        }
        with _fresh(store, postgres) as (runtime, config):
            fill(runtime, plan.cases, plan.messages, plan.events, lambda text: self._say(f"{store}: {text}"))
            with served(runtime, config) as console:
                for part in plan.parts:
                    self._say(f"{store}: {part}")
                    try:
                        parts[part](console, place)
                    except Exception as error:
                        self._failures.append(f"{part} on {store}: {type(error).__name__}: {error}")
                        self._say(f"  failed: {self._failures[-1]}")

    def _lists(self, console: Served, place: str) -> None:
        plan = self._plan
        found = times_s(console, addresses(plan.cases, plan.messages, plan.events), plan.times)
        self._findings += [list_finding(name, place, values) for name, values in found.items()]

    def _seen(self, console: Served, place: str) -> None:
        self._findings.append(seen_finding(place, delays_s(console, self._plan.seen)))

    def _crowd(self, console: Served, place: str) -> None:
        crowd = Crowd(console)
        self._findings.append(crowd_finding(place, crowd.share(self._plan.crowd_s)))
        self._failures += sorted(set(crowd.failures))

    def _say(self, text: str) -> None:
        self._console.print(text, style="dim", highlight=False)


@contextmanager
def _fresh(store: Store, postgres: PostgresServer | None) -> Iterator[tuple[Runtime, Path]]:
    """A runtime with an empty database, and the settings of the same as a file."""
    with tempfile.TemporaryDirectory(prefix="towpath-bench-") as home:
        database: dict[str, Any] = {"url": f"sqlite:///{home}/towpath.db"}
        log = {"url": "embedded"}
        if store is Store.POSTGRES:
            if postgres is None:
                raise AssertionError("PostgreSQL takes no part in this run")
            database, log = {"url": postgres.url, "schema": "bench_console"}, {"url": f"sqlite:///{home}/topics.db"}
        sections = {"database": database, "log": log, "desk": {"directory": f"{home}/desk"}}
        config = Path(home) / "towpath.toml"
        # A JSON string is a TOML string too.
        tables = [
            [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in section.items())]
            for name, section in sections.items()
        ]
        config.write_text("\n".join(line for table in tables for line in table) + "\n", encoding="utf-8")
        with Runtime(settings.load({}, config)) as runtime:
            yield runtime, config
