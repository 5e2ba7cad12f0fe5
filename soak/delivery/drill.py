"""One run: load and strikes, and then rest, so that the verdict can be given."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from soak.delivery.audit import ROOT, audit
from soak.delivery.blow import idle
from soak.delivery.books import Books, Tries
from soak.delivery.drivers import Drivers
from soak.delivery.flow import PARTITIONS, TOPICS
from soak.delivery.found import ends, look
from soak.delivery.mortal import mortal_kafka, mortal_postgres
from soak.delivery.plan import Plan
from soak.delivery.producer import Producer
from soak.delivery.reaper import Reaper, StageHalted
from soak.delivery.settings import sections
from soak.delivery.verdict import Verdict, judge
from towpath.errors import TowpathError
from towpath.stack.kafka import KafkaServer
from towpath.stack.postgres import PostgresServer
from towpath.testing.processes import ChildProcess
from towpath.testing.queue_ledger import Journal
from towpath.testing.servers import kafka_server, postgres_server

BEGIN_S = 180.0  # until the first driver works, on a busy machine
REST_S = 300.0  # for a batch, after the last strike
LOOK_S = 1.0

Watch = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """What a run has come to."""

    verdict: Verdict
    reaper: Reaper
    tries: Tries
    sent: int
    duration_s: float


class Drill:
    """Runs a plan on servers of its own."""

    def __init__(self, plan: Plan, home: Path, watch: Watch) -> None:
        self._plan = plan
        self._home = home
        self._watch = watch

    def run(self) -> Outcome:
        began = time.monotonic()
        with ExitStack() as closing:
            kafka = closing.enter_context(kafka_server())
            postgres = closing.enter_context(postgres_server())
            make_topics(kafka.bootstrap)
            # Leaves after the drivers, before the servers: what comes back must be there to be stopped.
            pool = closing.enter_context(ThreadPoolExecutor(2))
            drivers = self._drivers(kafka, postgres)
            closing.callback(drivers.close)
            servers = (mortal_kafka(kafka, pool), mortal_postgres(postgres, pool))
            journal = Journal(self._home / "strikes.journal", durable=False)
            closing.callback(journal.close)
            reaper = Reaper(drivers, *servers, Books(postgres.url), journal, self._watch)
            sent = self._load(reaper, kafka)
            reaper.problems += [*self._unclean(drivers), *idle(reaper.blows)]
            self._watch("verdict")
            verdict = _verdict(kafka.bootstrap, postgres.url)
            verdict.problems[:0] = reaper.problems
            verdict.problems += audit(self._home, self._sections(kafka, postgres), postgres.url, self._plan.delivery)
            return Outcome(verdict, reaper, reaper.books.tries(), sent, time.monotonic() - began)

    def _load(self, reaper: Reaper, kafka: KafkaServer) -> int:
        """From the first record to the last one that is read; how many were sent."""
        with Producer(kafka.bootstrap, self._plan.records_per_s, self._plan.seed) as producer:
            try:
                reaper.wait_for(lambda: reaper.drivers.active, BEGIN_S, "the first driver at work")
                reaper.run(self._plan.strikes())
                reaper.wait_for(lambda: reaper.kafka.is_up and reaper.postgres.is_up, BEGIN_S, "the servers up again")
                reaper.phase = f"{reaper.kills} kills, reading what is left"
                producer.finish()
                reaper.rest(lambda: _is_read(reaper, kafka.bootstrap), REST_S)
            except (TimeoutError, StageHalted) as error:
                reaper.problems += [str(error), *reaper.books.stages()]
        reaper.problems += producer.errors
        return producer.sent

    def _unclean(self, drivers: Drivers) -> list[str]:
        """The end of the drivers, and what is wrong with it."""
        found = []
        try:
            drivers.stop()
        except TowpathError as error:
            found.append(str(error))
        found += [f"process {each.pid} has outlived its driver" for each in drivers.outliving()]
        return found

    def _drivers(self, kafka: KafkaServer, postgres: PostgresServer) -> Drivers:
        active = self._home / "active"
        active.mkdir()
        order = {
            "sections": self._sections(kafka, postgres),
            "url": postgres.url,
            "delivery": self._plan.delivery,
            "active": str(active),
        }
        log = self._home / "driver.log"
        return Drivers(lambda: ChildProcess("soak.delivery.driver", order, log=log, cwd=ROOT), active)

    def _sections(self, kafka: KafkaServer, postgres: PostgresServer) -> dict[str, Any]:
        return sections(self._home, postgres.url, kafka.url)


def make_topics(bootstrap: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    made = client.create_topics([NewTopic(name, PARTITIONS, 1) for name in TOPICS])
    for each in made.values():
        each.result()


def _verdict(bootstrap: str, url: str) -> Verdict:
    try:
        return judge(look(bootstrap, url))
    except (psycopg.Error, KafkaException, TimeoutError) as error:
        return Verdict(problems=[f"what is there cannot be read: {error}"])


def _is_read(reaper: Reaper, bootstrap: str) -> bool:
    time.sleep(LOOK_S)
    reaper.check_halted()
    try:
        return reaper.books.is_read(ends(bootstrap))
    except (psycopg.Error, KafkaException):
        return False
