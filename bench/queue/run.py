"""One whole run: every row in interleaved rounds, then what only Towpath is asked for."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.queue.cells import Cell, Line, lines
from bench.queue.claim_cost import LONG, claim_cost_ratio
from bench.queue.field import Entry, Setting, Store
from bench.queue.findings import Finding, Samples, finding, result_text, single
from bench.queue.goals import claim_cost_goal, idle_goal
from bench.queue.idle_worker import WATCH_S, idle_core_share
from bench.queue.measuring import Measuring
from bench.queue.peers import PEERS
from bench.queue.process import ContenderFailed
from bench.queue.report import Report
from bench.queue.roster import entries
from bench.queue.stores import Stores
from towpath.testing.servers import postgres_server


@dataclass(frozen=True)
class Plan:
    """How much is measured. `scale` shortens every count; a short run proves that all works, not how fast."""

    stores: tuple[Store, ...]
    rounds: int = 5
    scale: float = 1.0
    long_queue: int = LONG
    watch_s: float = WATCH_S

    @property
    def settings(self) -> list[Setting]:
        """The stores with each durability that is compared."""
        return [setting for setting in Setting if setting.store in self.stores]

    @property
    def defaults(self) -> list[Setting]:
        """The stores with the durability that Towpath has when nothing is set."""
        return [setting for setting in self.settings if setting != Setting.SQLITE_NORMAL]


class Run:
    """Carries out a plan."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._peers_python = PEERS.python
        self._samples = Samples()
        self._field = {store: entries(store) for store in plan.stores}

    def report(self) -> Report:
        """Measure everything."""
        with _places(self._plan) as (home, postgres_url):
            stores = Stores(home, postgres_url, self._interpreter)
            measuring = Measuring(stores, self._interpreter)
            rows = lines(self._plan.settings)
            for number in range(self._plan.rounds):
                for line in rows:
                    self._say(f"round {number + 1}/{self._plan.rounds}: {_title(line)}")
                    self._measure_line(line, measuring)
            findings = [self._finding(line) for line in rows]
            for setting in self._plan.defaults:
                findings += self._findings_alone(setting, stores)
            machine = _machine(stores if postgres_url else None)
        return self._make_report(rows, findings, machine)

    def _interpreter(self, entry: Entry) -> Path:
        return Path(sys.executable) if entry.is_towpath else self._peers_python

    def _measure_line(self, line: Line, measuring: Measuring) -> None:
        for entry in self._field[line.setting.store]:
            cell = line.cell(entry, self._plan.scale)
            if cell is not None and cell not in self._samples.failures:
                self._measure_cell(cell, measuring)

    def _measure_cell(self, cell: Cell, measuring: Measuring) -> None:
        try:
            self._samples.add(cell, measuring.measure(cell))
        except ContenderFailed as failure:
            self._samples.failures[cell] = str(failure)
            self._say(f"  {cell.entry.name} failed: {failure}")

    def _finding(self, line: Line) -> Finding:
        return finding(line, self._field[line.setting.store], self._samples, self._plan.scale)

    def _findings_alone(self, setting: Setting, stores: Stores) -> list[Finding]:
        try:
            return self._towpath_alone(setting, stores)
        except ContenderFailed as failure:
            self._say(f"  towpath failed: {failure}")
            return [single("idle worker and claim cost", setting.title, float("inf"), "failed", idle_goal())]

    def _towpath_alone(self, setting: Setting, stores: Stores) -> list[Finding]:
        entry = next(entry for entry in self._field[setting.store] if entry.is_towpath)
        self._say(f"idle worker: {setting.title}")
        share = idle_core_share(stores, entry, setting, self._interpreter(entry), self._plan.watch_s)
        self._say(f"claim behind {self._plan.long_queue:,} messages: {setting.title}")
        address = stores.fresh(entry, 0)
        url = f"sqlite:///{address}" if setting.store == Store.SQLITE else address
        ratio = claim_cost_ratio(url, self._plan.long_queue)
        stores.drop(entry, address)
        return [
            single(
                f"claim behind {self._plan.long_queue:,} / 1,000 waiting",
                setting.title,
                ratio,
                f"{ratio:.2f} ×",
                claim_cost_goal(),
            ),
            single("idle worker", setting.title, share, f"{share:.2%} of a core", idle_goal()),
        ]

    def _make_report(self, rows: list[Line], findings: list[Finding], machine: str) -> Report:
        field = [entry for some in self._field.values() for entry in some]
        headings = ("operation", "store and durability", "processes", *dict.fromkeys(e.name for e in field))
        return Report(
            findings=findings,
            field=[(f"{e.name} {e.version}", e.store, e.settings, e.contract) for e in field],
            result_headings=headings,
            results=[self._results(line, headings[3:]) for line in rows],
            failures=list(dict.fromkeys(self._samples.failures.values())),
            machine=machine,
        )

    def _results(self, line: Line, names: tuple[str, ...]) -> list[str]:
        here = {entry.name: entry for entry in self._field[line.setting.store]}
        texts = [
            result_text(line, here[name], self._samples, self._plan.scale) if name in here else "" for name in names
        ]
        return [line.discipline, line.setting.title, str(line.processes), *texts]

    def _say(self, text: str) -> None:
        self._console.print(text, style="dim", highlight=False)


@contextmanager
def _places(plan: Plan) -> Iterator[tuple[Path, str | None]]:
    with (
        tempfile.TemporaryDirectory(prefix="towpath-bench-") as home,
        postgres_server() if Store.POSTGRES in plan.stores else nullcontext() as server,
    ):
        yield Path(home), server.url if server else None


def _title(line: Line) -> str:
    return f"{line.setting.title}, {line.discipline}, {line.processes} process(es)"


def _machine(stores: Stores | None) -> str:
    parts = [f"{os.cpu_count()} cores", f"Python {platform.python_version()}"]
    parts.append(f"SQLite {sqlite3.sqlite_version}")
    if stores is not None:
        parts.append(f"PostgreSQL {stores.server_version()} with its default settings (fsync on)")
    return "Machine: " + ", ".join(parts) + "."
