"""One whole run: transitions in turns with the peer, then kills, then sleepers."""

from __future__ import annotations

import os
import platform
import sqlite3
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import partial

from rich.console import Console

from bench import line
from bench.actors import roster
from bench.actors.findings import actors_finding
from bench.actors.introduction import introduction
from bench.actors.lines import Measure, Part, Store, lines
from bench.actors.sleepers import Slept, sleep_and_wake
from bench.actors.steps import TASKS, rate
from bench.actors.stores import Stores
from bench.actors.takeover import goes_on_s
from bench.findings import Samples
from bench.rows_report import Report
from bench.turns import Act, take_turns
from towpath.testing.servers import postgres_server

SHOWN_BY = {field.name.removesuffix("_s").removesuffix("_share").upper(): field.name for field in fields(Slept)}


@dataclass(frozen=True)
class Plan:
    """How much is measured. A short run proves that all works, not how fast."""

    parts: tuple[Part, ...]
    stores: tuple[Store, ...]
    rounds: int
    scale: float
    kills: int
    herds: int
    sleepers: int
    watch_s: float


class Run:
    """Carries out a plan."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._samples = Samples()

    def report(self) -> Report:
        """Measure everything."""
        plan = self._plan
        with ExitStack() as open_things:
            with_postgres = Store.POSTGRES in plan.stores
            server = open_things.enter_context(postgres_server()) if with_postgres else None
            stores = Stores(server)
            postgres = stores.server_version if with_postgres else None
            if Part.STEPS in plan.parts:
                self._steps(stores)
            for store in plan.stores:
                if Part.TAKEOVER in plan.parts:
                    self._takeover(stores, store)
                if Part.SLEEPERS in plan.parts:
                    self._sleepers(stores, store)
        return Report(
            title="Actors",
            command="make bench-actors",
            findings=[actors_finding(row, self._samples) for row in lines(plan.parts, plan.stores)],
            peers=roster.rows(plan.parts, plan.stores, postgres),
            failures=[f"{measure}: {said}" for measure, said in self._samples.failures.items()],
            introduction=introduction(plan.rounds, plan.kills, plan.herds, plan.watch_s),
            machine=f"Machine: {os.cpu_count()} cores; Python {platform.python_version()}; "
            f"SQLite {sqlite3.sqlite_version}.",
        )

    def _steps(self, stores: Stores) -> None:
        plan = self._plan
        acts: dict[line.Measure, Act] = {
            measure: partial(rate, task, stores, plan.scale)
            for measure, task in TASKS.items()
            if task.store in plan.stores
        }
        found = take_turns(lines((Part.STEPS,), plan.stores), acts, plan.rounds, self._say)
        self._samples.rounds |= found.rounds
        self._samples.failures |= found.failures

    def _takeover(self, stores: Stores, store: Store) -> None:
        measure = Measure.of("GOES_ON", store)
        self._say(f"{measure}: {self._plan.kills} kills")
        try:
            self._samples.add(measure, goes_on_s(stores, store, self._plan.kills))
        except Exception as error:
            self._failed(measure, error)

    def _sleepers(self, stores: Stores, store: Store) -> None:
        plan = self._plan
        measures = {Measure.of(what, store): shown for what, shown in SHOWN_BY.items()}
        for number in range(plan.herds):
            self._say(f"{plan.sleepers:,} sleepers, {store}: herd {number + 1}/{plan.herds}")
            try:
                slept = sleep_and_wake(stores, store, plan.sleepers, plan.watch_s)
            except Exception as error:
                for measure in measures:
                    self._failed(measure, error)
                return
            for measure, shown in measures.items():
                self._samples.add(measure, [getattr(slept, shown)])

    def _failed(self, measure: Measure, error: Exception) -> None:
        self._samples.failures[measure] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        self._say(f"  failed: {self._samples.failures[measure]}")

    def _say(self, text: str) -> None:
        self._console.print(text, style="dim", highlight=False)
