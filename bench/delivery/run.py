"""One whole run: real servers, filled topics, every way in turn, and some kills."""

from __future__ import annotations

import os
import platform
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from rich.console import Console

import towpath
from bench import line
from bench.delivery import roster
from bench.delivery.findings import delivery_finding
from bench.delivery.lines import PLACES, RECOVERY, WAYS, Measure, Part, lines
from bench.delivery.recovery import program, recover, spark_start_s, turn
from bench.delivery.settings import RECOVERIES, warm_up
from bench.delivery.way import Way
from bench.findings import Samples
from bench.flow.filling import fill
from bench.flow.process import Crew, crew
from bench.flow.workload import PARTITIONS
from bench.rows_report import Report
from bench.turns import Act, take_turns
from towpath.runtime import Runtime
from towpath.stack.kafka import KafkaServer
from towpath.stack.search import ElasticsearchServer
from towpath.testing.servers import elasticsearch_server, kafka_server

EVENTS, WARM_UP = "events", "warm-up"
ON_KAFKA = (Part.TOPIC, Part.INDEX, Part.RECOVERY)


@dataclass(frozen=True)
class Plan:
    """How much is measured. A short run proves that all works, not how fast."""

    parts: tuple[Part, ...]
    rounds: int
    records: int


class Run:
    """Carries out a plan."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._kafka: KafkaServer | None = None
        self._elasticsearch: ElasticsearchServer | None = None
        self._runtime: Runtime | None = None

    def report(self) -> Report:
        """Measure everything."""
        samples = Samples()
        with ExitStack() as open_things:
            self._prepare(open_things)
            for part in self._plan.parts:
                found = self._recoveries() if part is Part.RECOVERY else self._route(part)
                samples.rounds |= found.rounds
                samples.failures |= found.failures
        return Report(
            title="Delivery",
            command="make bench-delivery",
            findings=[delivery_finding(row, samples) for row in lines(self._plan.parts)],
            peers=self._who_took_part(),
            failures=[f"{measure}: {said}" for measure, said in samples.failures.items()],
            introduction=self._introduction(),
            machine=f"Machine: {os.cpu_count()} cores, shared by servers and Spark; {_python()}.",
        )

    def _prepare(self, open_things: ExitStack) -> None:
        if not set(ON_KAFKA) & set(self._plan.parts):
            return
        self._say("starting Kafka")
        self._kafka = open_things.enter_context(kafka_server())
        if Part.INDEX in self._plan.parts:
            self._say("starting Elasticsearch")
            self._elasticsearch = open_things.enter_context(elasticsearch_server())
        home = open_things.enter_context(tempfile.TemporaryDirectory(prefix="towpath-bench-"))
        self._runtime = open_things.enter_context(
            towpath.connect(database={"url": f"sqlite:///{home}/fill.db"}, log={"url": self._kafka.url})
        )
        self._say(f"filling topics with {self._plan.records:,} records")
        fill(self._runtime.log, WARM_UP, warm_up(self._plan.records))
        fill(self._runtime.log, EVENTS, self._plan.records)

    def _route(self, part: Part) -> Samples:
        self._say(f"{PLACES[part]}: starting Spark, and every way once to get warm")
        with crew(program("at_work"), self._turn(part)) as at_work:
            try:
                at_work.wait_until_ready()
            except Exception as error:
                return _all_failed(part, error)
            acts: dict[line.Measure, Act] = {
                measure: partial(_rate, at_work, way) for measure, way in WAYS[part].items()
            }
            return take_turns(lines((part,)), acts, self._plan.rounds, self._say)

    def _turn(self, part: Part) -> dict[str, object]:
        is_embedded = part not in ON_KAFKA
        return {
            "kind": part,
            "bootstrap": "" if is_embedded or self._kafka is None else self._kafka.bootstrap,
            "url": "" if self._elasticsearch is None else self._elasticsearch.url,
            "topic": EVENTS,
            "warm_up_topic": WARM_UP,
            "events": self._plan.records,
            "group": uuid4().hex,
        }

    def _recoveries(self) -> Samples:
        assert self._kafka is not None
        assert self._runtime is not None
        samples = Samples()
        rounds = min(RECOVERIES, self._plan.rounds)
        starts_s, recoveries = [], []
        for number in range(rounds):
            self._say(f"recovery {number + 1}/{rounds}: Spark alone, then a driver is killed in the middle of a batch")
            try:
                starts_s.append(spark_start_s(turn(self._kafka.bootstrap, EVENTS, "", self._plan.records)))
                recoveries.append(recover(self._runtime.log, self._kafka.bootstrap, EVENTS, self._plan.records))
            except Exception as error:
                samples.failures |= {measure: f"{type(error).__name__}: {error}" for measure in RECOVERY}
                return samples
        for start_s, found in zip(starts_s, recoveries, strict=True):
            samples.add(Measure.RECOVERED, [found.beyond_s(starts_s)])
            samples.add(Measure.FIRST_OUTPUT, [found.first_output_s])
            samples.add(Measure.READY, [found.ready_s])
            samples.add(Measure.SPARK_START, [start_s])
            samples.add(Measure.LEASE, [found.lease_s])
        return samples

    def _who_took_part(self) -> list[tuple[str, str, str]]:
        rows = [*roster.ours(), *roster.peers(self._plan.parts), *roster.drivers(self._plan.parts, self._plan.records)]
        rows += [roster.kafka(self._kafka)] if self._kafka is not None else []
        return rows + ([roster.elasticsearch(self._elasticsearch)] if self._elasticsearch is not None else [])

    def _introduction(self) -> str:
        return (
            f"{self._plan.records:,} records of about 200 bytes (in the demo 110) in {PARTITIONS} partitions, none of "
            "them bad. Rates are records per second, from the moment that Spark knows what the first batch may read to "
            "the end of the last one, as Spark tells it of every query, with Towpath or without: starting Spark, the "
            f"stage and the query does not count. The median of {self._plan.rounds} rounds, in brackets the least and "
            "the most. What is compared on a route takes turns in one process with one warm Spark, the order "
            "alternates, and the ratio is the median of the rounds' ratios. After each turn the outputs are counted: "
            "all records, none of them twice. Recovery: a driver is killed by SIGKILL in the middle of a batch; the "
            "time is from the start of the next one's process to the first new record that a reader of committed "
            "records sees, less the wait for the lease of the dead process and less Spark's own start: the shortest "
            "that a process took which has nothing but Spark, with the same settings and jars, and one empty job, and "
            "never more than this one took to have its Spark. All of them are shown by themselves."
        )

    def _say(self, text: str) -> None:
        self._console.print(text, style="dim", highlight=False)


def _python() -> str:
    return f"Python {platform.python_version()}"


def _rate(at_work: Crew, way: Way) -> float:
    at_work.begin(way)
    if not (figures := at_work.figures()):
        raise RuntimeError(at_work.last_words)
    return figures[0]


def _all_failed(part: Part, error: Exception) -> Samples:
    return Samples(failures={measure: f"{type(error).__name__}: {error}" for measure in WAYS[part]})
