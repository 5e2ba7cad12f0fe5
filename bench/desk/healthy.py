"""What errors cost the records that are good: a flow with 1 % errors and the desk at work, beside a clean one."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from uuid import uuid4

import psycopg
from psycopg import sql

import towpath
from bench.flow.filling import fill
from bench.flow.index import Index
from bench.flow.process import Program, crew
from bench.flow.workload import bad_events
from bench.page import ROOT
from towpath.stack.kafka import KafkaServer
from towpath.stack.postgres import PostgresServer
from towpath.stack.search import ElasticsearchServer

EVENTS, WARM_UP_EVENTS = 400_000, 150_000
WARM_UP, CLEAN, BAD = "bench.desk.warm-up", "bench.desk.clean", "bench.desk.bad"
TAKEN_WITHIN_S = 60.0
LOOK_S = 0.2


class Healthy:
    """Servers with topics that are filled; each measurement has a database schema and processes of its own."""

    def __init__(
        self, postgres: PostgresServer, kafka: KafkaServer, elasticsearch: ElasticsearchServer, events: int
    ) -> None:
        self._postgres = postgres
        self._kafka = kafka
        self._elasticsearch = elasticsearch
        self._events = events
        self._index = Index(elasticsearch.url)

    def fill(self, warm_up_events: int) -> None:
        with tempfile.TemporaryDirectory(prefix="towpath-bench-") as home:
            runtime = towpath.connect(database={"url": f"sqlite:///{home}/fill.db"}, log={"url": self._kafka.url})
            with runtime:
                fill(runtime.log, WARM_UP, warm_up_events)
                fill(runtime.log, CLEAN, self._events)
                fill(runtime.log, BAD, self._events, is_bad=True)

    def clean_s(self) -> float:
        """Events a second of a flow without errors, and without a desk beside it."""
        with self._settings(CLEAN) as settings:
            return self._rate_s(settings, self._events)

    def bad_s(self) -> float:
        """Events a second of one with errors, the desk at work; afterwards the desk has each of them as a case."""
        bad = bad_events(self._events)
        with self._settings(BAD) as settings, crew(_program("desk_at_work"), settings) as desk:
            desk.wait_until_ready()
            found = self._rate_s(settings, self._events - bad)
            self._wait_for_cases(str(settings["schema"]), bad)
        return found

    @contextmanager
    def _settings(self, topic: str) -> Iterator[Mapping[str, object]]:
        with tempfile.TemporaryDirectory(prefix="towpath-bench-") as home:
            yield {
                "home": home,
                "database": self._postgres.url,
                "schema": f"healthy_{uuid4().hex[:8]}",
                "log": self._kafka.url,
                "index": self._elasticsearch.url,
                "topic": topic,
                "warm_up_topic": WARM_UP,
            }

    def _rate_s(self, settings: Mapping[str, object], documents: int) -> float:
        with crew(_program("flow_at_work"), settings) as flow:
            flow.wait_until_ready()
            self._index.clear()
            began = flow.begin()
            ended = self._index.wait_for(documents)
            found = self._index.count()
        if found != documents:
            raise AssertionError(f"the index has {found:,} documents in place of {documents:,}")
        return self._events / (ended - began)

    def _wait_for_cases(self, schema: str, cases: int) -> None:
        deadline = time.monotonic() + TAKEN_WITHIN_S
        count = sql.SQL("select coalesce(sum(cases), 0) from {}.desk_tally").format(sql.Identifier(schema))
        with psycopg.connect(self._postgres.url, autocommit=True) as connection:
            while (found := connection.execute(count).fetchall()[0][0]) != cases:
                if time.monotonic() > deadline:
                    raise AssertionError(f"the desk has {found:,} cases in place of {cases:,}")
                time.sleep(LOOK_S)


def _program(name: str) -> Program:
    command = [sys.executable, "-m", f"bench.desk.contenders.{name}"]
    return Program(command, environment={"PYTHONPATH": str(ROOT)})
