"""One whole run."""

from __future__ import annotations

import os
import platform
import signal
import sqlite3
from dataclasses import dataclass, replace
from functools import partial

from rich.console import Console

from bench.environment import towpath_version
from bench.findings import Finding, Samples, finding
from bench.line import Line
from bench.rows_report import Report
from bench.supervision.deaths import deaths_of, killed, new_coordinator
from bench.supervision.ground import is_all_ready, supervised, until
from bench.supervision.lines import Measure, Part, lines
from bench.supervision.load import busy, share_of_a_core
from towpath.runtime import Runtime
from towpath.settings import ProcessSettings, SupervisionSettings

COPIES = 3
VICTIM = "idle-1"
SIGNALS = {
    signal.SIGKILL: (Measure.EXIT, Measure.EXIT_BACK),
    signal.SIGSTOP: (Measure.SILENCE, Measure.SILENCE_BACK),
}


@dataclass(frozen=True)
class Plan:
    """How much is measured. A short run proves that all works, not how well."""

    parts: tuple[Part, ...]
    kills: int
    elections: int
    load_s: float
    watched: int
    watch_s: float


class Run:
    """Carries out a plan."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._samples = Samples()

    def report(self) -> Report:
        plan = self._plan
        few = {Part.DEATHS: self._deaths, Part.COORDINATOR: self._coordinators, Part.LOAD: self._load}
        if few.keys() & set(plan.parts):
            with supervised(COPIES) as runtime:
                for part in plan.parts:
                    if part in few:
                        few[part](runtime)
        if Part.WATCH in plan.parts:
            self._watch()
        rows = lines(plan.parts, plan.load_s / 60, plan.watched)
        return Report(
            title="Supervision",
            command="make bench-supervision",
            findings=[supervision_finding(row, self._samples) for row in rows],
            peers=[_towpath()],
            failures=[f"{measure}: {said}" for measure, said in self._samples.failures.items()],
            introduction=introduction(plan),
            machine=f"Machine: {os.cpu_count()} cores; Python {platform.python_version()}; "
            f"SQLite {sqlite3.sqlite_version}.",
        )

    def _deaths(self, runtime: Runtime) -> None:
        for how, (noticed, back) in SIGNALS.items():
            for number in range(self._plan.kills):
                self._say(f"{how.name} {number + 1}/{self._plan.kills}")
                seconds = killed(runtime, VICTIM, how)
                self._samples.add(noticed, [seconds[0]])
                self._samples.add(back, [seconds[1]])

    def _coordinators(self, runtime: Runtime) -> None:
        for number in range(self._plan.elections):
            self._say(f"coordinator {number + 1}/{self._plan.elections}")
            self._samples.add(Measure.COORDINATOR, [new_coordinator(runtime)])

    def _load(self, runtime: Runtime) -> None:
        self._say(f"{self._plan.load_s:g} s of full load")
        self._samples.add(Measure.MISTAKES, [float(deaths_of(runtime, partial(busy, self._plan.load_s)))])

    def _watch(self) -> None:
        self._say(f"starting {self._plan.watched} processes")
        with supervised(self._plan.watched) as runtime:
            until(lambda: is_all_ready(runtime), "everything ready")
            coordinator = runtime.duties.overview().coordinator
            if coordinator is None:
                raise RuntimeError("nobody coordinates")
            self._say(f"{self._plan.watch_s:g} s of watching")
            self._samples.add(Measure.WATCHING, [share_of_a_core(coordinator.pid, self._plan.watch_s)])

    def _say(self, text: str) -> None:
        self._console.print(text, style="dim", highlight=False)


def supervision_finding(line: Line, samples: Samples) -> Finding:
    """The row of `line`, in its own unit."""
    found = finding(line, samples)
    median = samples.median(line.ours)
    if median is None or line.ours.is_time:
        return found
    return replace(found, towpath=f"{median:.2%} of a core" if line.ours is Measure.WATCHING else f"{median:.0f}")


def introduction(plan: Plan) -> str:
    return " ".join(
        [
            f"Deaths: one of {COPIES} processes that `towpath up` keeps running, without Spark, is killed,",
            f"or stopped so that it answers nobody, {plan.kills} times each.",
            "The times are those that the coordinator writes down, by the database's clock;",
            "back at work means that the next process has registered and says that it is ready.",
            f"Coordinator: {plan.elections} kills; the time is until another peer holds the next term.",
            "Under load nobody is killed: every death that is written down is one by mistake.",
            f"Watching: CPU of the coordinator's process during {plan.watch_s:g} s, by the kernel,",
            "while everybody is well.",
        ]
    )


def _towpath() -> tuple[str, str, str]:
    times, process = SupervisionSettings(), ProcessSettings()
    return (
        "towpath",
        towpath_version(),
        f"{times.peers} peers on one host, all at defaults: ping_s = {times.ping_s:g}, silent_s = {times.silent_s:g}, "
        f"election_s = {times.election_s:g}, lease_s = {times.lease_s:g}, retry_least_s = {times.retry_least_s:g}, "
        f"heartbeat_s = {process.heartbeat_s:g}",
    )
