"""One whole run: real servers, filled topics, every contender in turn."""

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
from bench.findings import finding
from bench.flow.filling import fill
from bench.flow.index import Index
from bench.flow.lines import Measure, Part, lines
from bench.flow.peers import PEERS
from bench.flow.process import Program, crew
from bench.flow.roster import who_took_part
from bench.flow.workload import EVENTS, PARTITIONS, WARM_UP_EVENTS, bad_events
from bench.rows_report import Report
from bench.turns import Act, take_turns
from towpath.testing.servers import elasticsearch_server, kafka_server

CLEAN, BAD, WARM_UP = "events", "events-bad", "warm-up"


@dataclass(frozen=True)
class Plan:
    """How much is measured. A short run proves that all works, not how fast."""

    parts: tuple[Part, ...]
    rounds: int = 5
    events: int = EVENTS
    warm_up_events: int = WARM_UP_EVENTS


class Run:
    """Carries out a plan."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._acts: dict[line.Measure, Act] = {}
        self._peers: list[tuple[str, str, str]] = []

    def report(self) -> Report:
        """Measure everything."""
        rows = lines(self._plan.parts)
        with ExitStack() as open_things:
            self._prepare(open_things)
            self._say("warming up Elasticsearch")
            self._acts[Measure.READY]()  # else it would be cold for whoever comes first
            samples = take_turns(rows, self._acts, self._plan.rounds, self._say)
        return Report(
            title="Flows",
            command="make bench-flow",
            findings=[finding(row, samples) for row in rows],
            peers=self._peers,
            failures=[f"{measure}: {said}" for measure, said in samples.failures.items()],
            introduction=self._introduction(),
            machine=f"Machine: {os.cpu_count()} cores, shared by broker, index and contender; {_python()}.",
        )

    def _prepare(self, open_things: ExitStack) -> None:
        self._say("starting Kafka and Elasticsearch")
        self._kafka = open_things.enter_context(kafka_server())
        self._elasticsearch = open_things.enter_context(elasticsearch_server())
        self._index = Index(self._elasticsearch.url)
        self._say(f"filling topics with {self._plan.events:,} events")
        self._fill_kafka(open_things)
        ours, spark = Program.module("towpath_flow"), Program.module("usual_spark", packages=PEERS.packages)
        by_hand = Program.script(PEERS.python, "handwritten", 2)
        good = self._plan.events - bad_events(self._plan.events)
        self._acts |= {
            Measure.PLAIN: partial(self._indexed, ours, "plain"),
            Measure.PLAIN_USUAL: partial(self._indexed, spark, "plain"),
            Measure.PLAIN_HAND: partial(self._indexed, by_hand, "plain"),
            Measure.QUIX: partial(self._indexed, Program.script(PEERS.python, "quix", 2), "plain"),
            Measure.RSYSLOG: partial(self._indexed, Program.module("rsyslog"), "plain"),
            Measure.READY: partial(self._indexed, Program.module("ready_bodies"), "plain"),
            Measure.STEPS: partial(self._indexed, ours, "steps"),
            Measure.STEPS_USUAL: partial(self._indexed, spark, "steps"),
            Measure.STEPS_HAND: partial(self._indexed, by_hand, "steps"),
            Measure.STEPS_DECLARED: partial(self._indexed, ours, "declared"),
            Measure.STEPS_BAD: partial(self._indexed, ours, "steps", BAD, good),
            Measure.EACH: partial(self._told, ours, "each"),
            Measure.TABLE: partial(self._told, Program.module("embedded"), "table", bootstrap="", url=""),
            Measure.SINGLE: partial(self._told, Program.module("single_records"), "plain"),
        }
        self._peers = who_took_part(self._kafka, self._elasticsearch)

    def _fill_kafka(self, open_things: ExitStack) -> None:
        home = open_things.enter_context(tempfile.TemporaryDirectory(prefix="towpath-bench-"))
        runtime = towpath.connect(database={"url": f"sqlite:///{home}/fill.db"}, log={"url": self._kafka.url})
        with runtime:
            fill(runtime.log, WARM_UP, self._plan.warm_up_events)
            fill(runtime.log, CLEAN, self._plan.events)
            if Part.STEPS in self._plan.parts:
                fill(runtime.log, BAD, self._plan.events, is_bad=True)

    def _indexed(self, program: Program, kind: str, topic: str = CLEAN, documents: int = 0) -> float:
        """Documents per second, as the index has them."""
        expected = documents or self._plan.events
        with crew(program, self._turn(kind, topic)) as at_work:
            at_work.wait_until_ready()
            self._index.clear()
            began = at_work.begin()
            ended = self._index.wait_for(expected)
            found = self._index.count()
        assert found == expected, f"the index has {found:,} documents in place of {expected:,}"
        return self._plan.events / (ended - began)

    def _told(self, program: Program, kind: str, **instead: str) -> list[float]:
        """What the contender has measured itself."""
        self._index.clear()
        with crew(program, self._turn(kind, CLEAN) | instead) as at_work:
            at_work.wait_until_ready()
            at_work.begin()
            return at_work.figures()

    def _turn(self, kind: str, topic: str) -> dict[str, object]:
        return {
            "kind": kind,
            "bootstrap": self._kafka.bootstrap,
            "url": self._elasticsearch.url,
            "topic": topic,
            "warm_up_topic": WARM_UP,
            "events": self._plan.events,
            "group": uuid4().hex,
        }

    def _introduction(self) -> str:
        return (
            f"{self._plan.events:,} events of about 200 bytes in {PARTITIONS} partitions, ids from coordinates. Rates "
            "are documents per second, from the start of the work in a warm process until the index has all of them, "
            f"which is asked of Elasticsearch: the median of {self._plan.rounds} rounds, in brackets the least and the "
            "most. "
            "Contenders take turns, the order alternates, and the ratio is the median of the rounds' ratios."
        )

    def _say(self, text: str) -> None:
        self._console.print(text, style="dim", highlight=False)


def _python() -> str:
    return f"Python {platform.python_version()}"
