"""One run: everything up, clients and strikes at once, and the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from examples.flights.client import Client, ClientFailed
from examples.flights.exhibition import everything_up, make_clients, run_all, wait_for_cases
from examples.flights.station import Station
from examples.flights.verdict import Verdict, judge
from examples.flights.world.amounts import Amounts

from soak.flights.killer import Killer
from soak.flights.plan import Plan
from towpath.runtime import Runtime

DEADLINE_S = 2_400.0
REST_S = 300.0
LOOK_S = 1.0
CHUNK_BYTES = 65_536  # small, so that many are cut off
# Short, so that what is killed is soon followed by another, and long enough for a busy machine with two cores. A killed
# worker looks like a record that ends its worker, and is searched for.
SETTINGS = """
[process]
heartbeat_s = 0.5
lease_s = 5.0

[flow]
max_batch_records = {batch}
retry_most_s = 2.0
search_s = 600.0

[supervision]
retry_most_s = 5.0
early_deaths = 100
"""

Watch = Callable[[str], None]


@dataclass
class Outcome:
    """What a run has come to."""

    verdict: Verdict
    killer: Killer
    took_s: float


class Drill:
    """Runs a plan in a directory of its own, on the embedded default or on a database and a log elsewhere."""

    def __init__(self, plan: Plan, home: Path, watch: Watch, *, database: str = "", log: str = "") -> None:
        self._plan = plan
        self._watch = watch
        more = SETTINGS.format(batch=max(2_000, plan.rows // 10))
        slow = f"bytes_per_s = {plan.bytes_per_s}\nchunk_bytes = {CHUNK_BYTES}\nline_bytes = {CHUNK_BYTES // 2}"
        self._station = Station.make(home, database=database, log=log, gateway=slow, more=more)

    def run(self) -> Outcome:
        self._station.towpath("schema", "upgrade")
        self._watch("making files")
        amounts = Amounts.of(self._plan.rows)
        clients = make_clients(self._station, self._plan.clients, self._plan.seed, amounts, self._plan.airports)
        self._watch("starting everything")
        with everything_up(self._station), self._station.connect() as runtime:
            killer = Killer(runtime, clients, self._plan)
            problems, took_s = self._clients(clients, killer)
            problems += self._rest(runtime)
            expected = amounts.malformed + amounts.implausible + amounts.unknown
            wait_for_cases(self._station, self._plan.clients * expected)
            self._watch("verdict")
            verdict = judge(self._station, clients)
            verdict.problems[:0] = problems
            if not killer.is_done:
                verdict.problems.append(f"void: {killer.hit.total()} of {self._plan.kills} kills came about")
            return Outcome(verdict, killer, took_s)

    def _clients(self, clients: list[Client], killer: Killer) -> tuple[list[str], float]:
        began = time.monotonic()

        def meanwhile() -> None:
            killer.turn()
            self._watch(f"{killer.hit.total()}/{self._plan.kills} kills · {time.monotonic() - began:.0f} s")

        try:
            return [], run_all(clients, meanwhile, DEADLINE_S)
        except (ClientFailed, TimeoutError) as error:
            return [str(error)], time.monotonic() - began

    def _rest(self, runtime: Runtime) -> list[str]:
        """Until everything that was killed is up again; what is not by then."""
        deadline = time.monotonic() + REST_S
        while left := _not_ready(runtime):
            if time.monotonic() > deadline:
                return [f"after {REST_S:g} s of rest: {each}" for each in left]
            self._watch(f"resting: {', '.join(left)}")
            time.sleep(LOOK_S)
        return []


def _not_ready(runtime: Runtime) -> list[str]:
    found = runtime.duties.overview()
    left = [f"{duty.name} is {duty.state}" for duty in found.duties if duty.is_wanted and duty.state != "ready"]
    return left if found.has_coordinator else [*left, "no peer coordinates"]
