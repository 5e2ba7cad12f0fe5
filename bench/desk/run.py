"""One whole run: each part in rounds, on each store."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from rich.console import Console

from bench import line
from bench.desk import by_hand as hand
from bench.desk import intake, queries, roster
from bench.desk.figures import Figure, figure
from bench.desk.findings import desk_finding
from bench.desk.healthy import Healthy
from bench.desk.introduction import introduction
from bench.desk.lane import release_delays_s
from bench.desk.lines import FEW, Measure, Part, Store, lines
from bench.desk.replay import replay_group
from bench.desk.stores import Stores
from bench.findings import Samples
from bench.rows_report import Report
from bench.turns import Act, take_turns
from towpath.runtime import Runtime
from towpath.stack.kafka import KafkaServer
from towpath.stack.postgres import PostgresServer
from towpath.testing.servers import elasticsearch_server, kafka_server, postgres_server

MOST_HEALTHY_ROUNDS = 3  # a flow takes a minute to be warm


@dataclass(frozen=True)
class Plan:
    """How much is measured. A short run proves that all works, not how fast."""

    parts: tuple[Part, ...]
    stores: tuple[Store, ...]
    rounds: int
    errors: int
    cases: int
    replays: int
    releases: int
    events: int
    warm_up: int


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
            has_servers = Store.POSTGRES in plan.stores
            postgres = open_things.enter_context(postgres_server()) if has_servers else None
            kafka = open_things.enter_context(kafka_server()) if has_servers else None
            self._measure_stores(Stores(postgres, kafka))
            peers = roster.rows(plan.parts, postgres, kafka, self._healthy(postgres, kafka))
        return Report(
            title="Desk",
            command="make bench-desk",
            findings=[desk_finding(row, self._samples) for row in lines(plan.parts, plan.stores)],
            peers=peers,
            failures=[f"{measure}: {said}" for measure, said in self._samples.failures.items()],
            introduction=introduction(plan.rounds, plan.errors, plan.replays, plan.events),
            machine=f"Machine: {os.cpu_count()} cores, shared by all servers; Python {platform.python_version()}; "
            f"SQLite {sqlite3.sqlite_version}.",
        )

    def figures(self) -> list[Figure]:
        """The rows as numbers, once everything is measured."""
        return [figure(row, self._samples) for row in lines(self._plan.parts, self._plan.stores)]

    def _measure_stores(self, stores: Stores) -> None:
        for store in self._plan.stores:
            for number in range(self._plan.rounds):
                self._round(stores, store, number)
            if Part.QUERIES in self._plan.parts:
                self._queries(stores, store)

    def _healthy(self, postgres: PostgresServer | None, kafka: KafkaServer | None) -> str | None:
        """Measured last, since Elasticsearch and Spark take much of the machine; returns Elasticsearch's version."""
        if Part.HEALTHY not in self._plan.parts or postgres is None or kafka is None:
            return None
        with elasticsearch_server() as elasticsearch:
            healthy = Healthy(postgres, kafka, elasticsearch, self._plan.events)
            self._say(f"filling topics with {self._plan.events:,} events")
            healthy.fill(self._plan.warm_up)
            rounds = min(self._plan.rounds, MOST_HEALTHY_ROUNDS)
            acts: dict[line.Measure, Act] = {Measure.HEALTHY_BAD: healthy.bad_s, Measure.HEALTHY_CLEAN: healthy.clean_s}
            found = take_turns(lines((Part.HEALTHY,), self._plan.stores), acts, rounds, self._say)
            self._samples.rounds |= found.rounds
            self._samples.failures |= found.failures
            return elasticsearch.version

    def _round(self, stores: Stores, store: Store, number: int) -> None:
        plan, flow = self._plan, f"bench{number}"
        acts: dict[Part, tuple[str, Callable[[Runtime], list[float]]]] = {
            Part.INTAKE: ("INTAKE", lambda runtime: [intake.rate_s(runtime, plan.errors)]),
            Part.REPLAY: ("REPLAY", lambda runtime: [replay_group(runtime, flow, plan.replays).rate_s]),
            Part.LANE: ("LANE", lambda runtime: release_delays_s(runtime, flow, plan.releases)),
        }
        by_hand: dict[Part, tuple[Measure, Callable[[Runtime], list[float]]]] = {
            Part.INTAKE: (Measure.INTAKE_HAND, lambda runtime: [hand.intake_s(runtime, plan.errors)]),
            Part.REPLAY: (Measure.REPLAY_HAND, lambda runtime: [hand.replay_s(runtime, plan.replays)]),
        }
        for part, (what, act) in acts.items():
            if part in plan.parts:
                self._measure(stores, store, Measure.of(what, store), act, f"round {number + 1}/{plan.rounds}")
                if store is Store.POSTGRES and part in by_hand:
                    self._measure(stores, store, *by_hand[part], f"round {number + 1}/{plan.rounds}")

    def _queries(self, stores: Stores, store: Store) -> None:
        self._measure(stores, store, Measure.of("TAKE_FEW", store), self._few, "with few cases")

        def many(runtime: Runtime) -> list[float]:
            queries.fill(runtime, self._plan.cases)
            for what, values in queries.query_times_s(runtime).items():
                self._samples.add(Measure.of(what, store), values)
            return [queries.take_s(runtime)]

        self._measure(stores, store, Measure.of("TAKE_MANY", store), many, f"with {self._plan.cases:,} cases")

    def _few(self, runtime: Runtime) -> list[float]:
        queries.fill(runtime, FEW)
        return [queries.take_s(runtime)]

    def _measure(
        self, stores: Stores, store: Store, measure: Measure, act: Callable[[Runtime], list[float]], told: str
    ) -> None:
        if measure in self._samples.failures:
            return
        self._say(f"{told}: {measure}")
        try:
            with stores.fresh(store) as runtime:
                self._samples.add(measure, act(runtime))
        except Exception as error:
            self._samples.failures[measure] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            self._say(f"  failed: {self._samples.failures[measure]}")

    def _say(self, text: str) -> None:
        self._console.print(text, style="dim", highlight=False)
