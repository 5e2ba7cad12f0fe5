"""One whole run."""

from __future__ import annotations

import os
import platform
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from examples.flights.station import Station
from examples.flights.world.airport import all_airports
from examples.flights.world.amounts import Amounts
from examples.flights.world.itineraries import write_itineraries
from rich.console import Console

from bench import line
from bench.findings import Samples
from bench.gateway import roster
from bench.gateway.findings import gateway_finding
from bench.gateway.flights import Flights
from bench.gateway.ground import gateway
from bench.gateway.introduction import introduction
from bench.gateway.lines import Log, Measure, Part, lines
from bench.gateway.sending import many, one_mb_per_minute
from bench.gateway.servers import fresh
from bench.gateway.wide import SCHEMA as WIDE_COLUMNS
from bench.gateway.wide import write_wide
from bench.rows_report import Report
from bench.turns import Act, take_turns

MOST_FLIGHTS_ROUNDS = 3  # a turn takes minutes
SEED = 2026
WIDE, WIDER = "wide.csv", 6  # so many times fewer lines, since they are longer

Sending = Callable[[Station], tuple[float, ...]]


@dataclass(frozen=True)
class Plan:
    """How much is measured. A short run proves that all works, not how fast."""

    parts: tuple[Part, ...]
    logs: tuple[Log, ...]
    rounds: int
    lines: int
    clients: int
    many_s: float
    flights: int


class Run:
    """Carries out a plan."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._samples = Samples()
        self._versions: dict[str, str] = {}

    def report(self) -> Report:
        plan = self._plan
        if {Part.ONE, Part.MANY} & {*plan.parts}:
            self._sending()
        if Part.FLIGHTS in plan.parts:
            self._flights()
        rows = lines(plan.parts, plan.logs, plan.clients, plan.flights)
        return Report(
            title="Gateway",
            command="make bench-gateway",
            findings=[gateway_finding(row, self._samples) for row in rows],
            peers=roster.rows(plan.parts, self._versions),
            failures=[f"{measure}: {said}" for measure, said in self._samples.failures.items()],
            introduction=introduction(plan.rounds, plan.lines, plan.clients, plan.many_s, plan.flights),
            machine=f"Machine: {os.cpu_count()} cores, shared by servers and clients; "
            f"Python {platform.python_version()}; SQLite {sqlite3.sqlite_version}.",
        )

    def _sending(self) -> None:
        with tempfile.TemporaryDirectory(prefix="towpath-bench-") as name:
            file = Path(name) / "itineraries.csv"
            self._say(f"making {self._plan.lines:,} itineraries")
            write_itineraries(file, SEED, Amounts.of(self._plan.lines), all_airports())
            few = file.with_name("few.csv")
            write_itineraries(few, SEED, Amounts.of(self._plan.lines // WIDER), all_airports())
            write_wide(few, file.with_name(WIDE), SEED)
            for number in range(self._plan.rounds):
                for log in self._plan.logs:
                    self._round(number, log, file)

    def _round(self, number: int, log: Log, file: Path) -> None:
        plan = self._plan
        wide = file.with_name(WIDE)
        acts: list[tuple[Part, tuple[str, ...], Sending]] = [
            (Part.ONE, ("ONE",), lambda station: (one_mb_per_minute(station, file),)),
            (Part.ONE, ("WIDE",), lambda station: (one_mb_per_minute(station, wide),)),
            (Part.MANY, ("MANY", "SHARE"), lambda station: many(station, file, plan.clients, plan.many_s)),
        ]
        for part, names, act in acts:
            measures = [Measure.of(name, log) for name in names]
            if part in plan.parts and measures[0] not in self._samples.failures:
                self._say(f"round {number + 1}/{plan.rounds}: {measures[0]}")
                self._measure(measures, log, act, WIDE_COLUMNS if "WIDE" in names else "")

    def _measure(self, measures: list[Measure], log: Log, act: Sending, more_columns: str) -> None:
        try:
            with fresh(log) as servers, tempfile.TemporaryDirectory(prefix="towpath-bench-") as name:
                self._versions |= servers.versions
                with gateway(Path(name), servers.database, servers.log, more_columns) as station:
                    values = act(station)
            for measure, value in zip(measures, values, strict=True):
                self._samples.add(measure, [value])
        except Exception as error:
            self._samples.failures |= dict.fromkeys(measures, f"{type(error).__name__}: {str(error).strip()[-300:]}")
            self._say(f"  failed: {self._samples.failures[measures[0]]}")

    def _flights(self) -> None:
        plan = self._plan
        with tempfile.TemporaryDirectory(prefix="towpath-bench-") as name:
            flights = Flights(Path(name), plan.flights)
            self._say(f"making {plan.flights:,} itineraries")
            flights.make()
            acts: dict[line.Measure, Act] = {Measure.FLIGHTS: flights.towpath_s, Measure.BATCH_JOB: flights.batch_job_s}
            rows = lines((Part.FLIGHTS,), (Log.SQLITE,), plan.clients, plan.flights)
            found = take_turns(rows, acts, min(plan.rounds, MOST_FLIGHTS_ROUNDS), self._say)
        self._samples.rounds |= found.rounds
        self._samples.failures |= found.failures

    def _say(self, text: str) -> None:
        self._console.print(text, style="dim", highlight=False)
