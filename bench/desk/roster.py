"""Who takes part, in which version, with which settings and under which contract."""

from __future__ import annotations

from importlib.metadata import version

import pyspark
from confluent_kafka import libversion

from bench.desk.by_hand import AT_ONCE
from bench.desk.lines import Part
from bench.environment import towpath_version
from bench.flow.settings import MASTER, MEMORY
from towpath.stack.kafka import KafkaServer
from towpath.stack.postgres import PostgresServer

Row = tuple[str, str, str]


def rows(
    parts: tuple[Part, ...],
    postgres: PostgresServer | None,
    kafka: KafkaServer | None,
    elasticsearch: str | None,
) -> list[Row]:
    found = [("Towpath", towpath_version(), "default settings; one process has intake, relay, replayer and bulk jobs")]
    if postgres is not None and {Part.INTAKE, Part.REPLAY} & {*parts}:
        found.append(_by_hand())
    if postgres is not None:
        found.append(("PostgreSQL", postgres.version, "fsync and synchronous_commit on, on the same machine"))
    if kafka is not None:
        found.append(("Apache Kafka", kafka.version, "one broker, four partitions a topic"))
    if elasticsearch is not None:
        found.append(("Elasticsearch", elasticsearch, "one node, one shard an index, refresh every 30 s"))
        found.append(("Spark", pyspark.__version__, f"{MASTER}, {MEMORY}: the flow whose errors the desk takes in"))
    return found


def _by_hand() -> Row:
    return (
        "written by hand",
        f"confluent-kafka {version('confluent-kafka')} ({libversion()[0]}), psycopg {version('psycopg')}",
        f"a consumer that puts error records into one table, and a script that produces rows of it again; "
        f"{AT_ONCE:,} a transaction; no groups, attempts, history or outbox; the script may send twice after a crash. "
        "Other dead-letter tools come with servers of their own, and not as packages",
    )
