"""One whole run: all that is compared in turn, round after round."""

from __future__ import annotations

import os
import platform
import sqlite3
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import confluent_kafka
from rich.console import Console

from bench import line
from bench.findings import finding
from bench.log.in_spark import InSpark, versions
from bench.log.lines import Measure, Part, lines
from bench.log.on_kafka import OnKafka
from bench.log.on_sqlite import OnSqlite
from bench.log.workload import BATCH, PARTITIONS, RECORDS, VALUE_BYTES
from bench.rows_report import Report
from bench.turns import Act, take_turns
from towpath.settings import SparkSettings
from towpath.spark.session import build_session
from towpath.testing.servers import kafka_server

MASTER = "local[2]"
MEMORY = "2g"


@dataclass(frozen=True)
class Plan:
    """How much is measured. A short run proves that all works, not how fast."""

    parts: tuple[Part, ...]
    rounds: int = 5
    records: int = RECORDS
    single_records: int = 20

    @property
    def needs_kafka(self) -> bool:
        return self.parts != (Part.SQLITE,)


class Run:
    """Carries out a plan."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._acts: dict[line.Measure, Act] = {}
        self._peers = [
            ("towpath", version("towpath"), "appends return where each record is; reads are of committed records")
        ]

    def report(self) -> Report:
        """Measure everything."""
        rows = lines(self._plan.parts)
        with ExitStack() as open_things:
            self._prepare(open_things)
            samples = take_turns(rows, self._acts, self._plan.rounds, self._say)
        return Report(
            title="The log",
            command="make bench-log",
            findings=[finding(row, samples) for row in rows],
            peers=self._peers,
            failures=[f"{measure}: {said}" for measure, said in samples.failures.items()],
            introduction=self._introduction(),
            machine=_machine(),
        )

    def _prepare(self, open_things: ExitStack) -> None:
        home = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="towpath-bench-")))
        on_sqlite = OnSqlite(home, self._plan.records)
        self._acts |= {
            Measure.SQLITE_FULL: partial(on_sqlite.append, "full"),
            Measure.SQLITE_NORMAL: partial(on_sqlite.append, "normal"),
            Measure.SQLITE_READ: on_sqlite.read,
        }
        if self._plan.needs_kafka:
            on_kafka = self._prepare_kafka(open_things)
            if Part.SPARK in self._plan.parts:
                self._prepare_spark(open_things, on_sqlite, on_kafka)

    def _prepare_kafka(self, open_things: ExitStack) -> OnKafka:
        self._say("starting Kafka")
        server = open_things.enter_context(kafka_server())
        on_kafka = OnKafka(server.bootstrap, self._plan.records)
        open_things.callback(on_kafka.log.close)
        self._acts |= {
            Measure.KAFKA_APPEND: on_kafka.append,
            Measure.PLAIN_APPEND: on_kafka.plain_append,
            Measure.KAFKA_TRANSACTION: on_kafka.transactions,
            Measure.PLAIN_TRANSACTION: on_kafka.plain_transactions,
            Measure.KAFKA_READ: on_kafka.read,
            Measure.PLAIN_READ: on_kafka.plain_read,
        }
        library = confluent_kafka.libversion()[0]
        contract = (
            "the same properties and batches (idempotence, acks all, murmur2, linger 1 ms); "
            "a callback keeps where each record is; reads by consume(1,000), read_committed"
        )
        self._peers += [
            ("Apache Kafka", server.version, "one broker with a heap of 512 MiB, KRaft, on the same machine"),
            ("confluent-kafka", f"{version('confluent-kafka')} (librdkafka {library})", contract),
        ]
        return on_kafka

    def _prepare_spark(self, open_things: ExitStack, on_sqlite: OnSqlite, on_kafka: OnKafka) -> None:
        self._say("starting Spark, and filling both logs")
        session = build_session(SparkSettings(master=MASTER, memory=MEMORY), "bench", connector=True)
        open_things.callback(session.stop)
        kafka_log = on_kafka.filled()
        sqlite_log = open_things.enter_context(on_sqlite.filled())
        in_spark = InSpark(session, self._plan.records, self._plan.single_records)
        for log in (sqlite_log, kafka_log):
            in_spark.warm_up(log)
        self._acts |= {
            Measure.SPARK_BATCH_SQLITE: partial(in_spark.batch, sqlite_log),
            Measure.SPARK_BATCH_KAFKA: partial(in_spark.batch, kafka_log),
            Measure.SPARK_RUNNING_SQLITE: partial(in_spark.running_stream, sqlite_log),
            Measure.SPARK_RUNNING_KAFKA: partial(in_spark.running_stream, kafka_log),
            Measure.SPARK_STREAM_SQLITE: partial(in_spark.stream, sqlite_log),
            Measure.SPARK_STREAM_KAFKA: partial(in_spark.stream, kafka_log),
            Measure.SEEN_SQLITE: partial(in_spark.seen_after_s, sqlite_log),
            Measure.SEEN_KAFKA: partial(in_spark.seen_after_s, kafka_log),
        }
        self._peers.append(
            (
                "Spark's Kafka source",
                f"spark-sql-kafka {session.version}",
                f"{versions(session)}; noop sink, one task a partition",
            )
        )

    def _introduction(self) -> str:
        return (
            f"{self._plan.records:,} records of {VALUE_BYTES} bytes with keys, in {PARTITIONS} partitions, in batches "
            f"(and transactions) of {BATCH:,}. Rates are records per second: the median of "
            f"{self._plan.rounds} rounds, in brackets the least and the most. What is compared takes turns, who is "
            "first alternates, and the ratio is the median of the rounds' ratios."
        )

    def _say(self, text: str) -> None:
        self._console.print(text, style="dim", highlight=False)


def _machine() -> str:
    return f"Machine: {os.cpu_count()} cores, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}."
