"""Who takes part, in which version, with which settings and under which contract."""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import version

import confluent_kafka
import pyspark

from bench.delivery.lines import Part
from bench.delivery.settings import batch_of_recovery
from bench.environment import towpath_version
from bench.flow.settings import MASTER, MAX_BATCH_RECORDS, MEMORY
from bench.flow.workload import PARTITIONS
from towpath.settings import DatabaseSettings, FlowSettings, ProcessSettings
from towpath.stack.kafka import KafkaServer
from towpath.stack.search import ElasticsearchServer

Row = tuple[str, str, str]


def _spark() -> str:
    trigger_s = FlowSettings().trigger_s
    return (
        f"Spark {pyspark.__version__}, {MASTER}, {MEMORY}, batches of {MAX_BATCH_RECORDS:,} records, looks for news "
        f"every {trigger_s:g} s"
    )


def ours() -> list[Row]:
    return [
        (
            "towpath",
            towpath_version(),
            f"{_spark()}; delivery= as named, all else at its defaults: strict JSON, ledger on SQLite (synchronous "
            f"{DatabaseSettings().synchronous.upper()}), error topic; the function of the demo says "
            "deterministic=True and has no time limit; in the row that is not deterministic it is as it comes: a limit "
            "of 0.5 s, and nothing said",
        ),
        (
            "plain foreachBatch",
            pyspark.__version__,
            f"{_spark()}; the same plan, and in its tasks the same readers, functions and writers as "
            "Towpath's; without ledger, marks, decision, reports, sums of ids, breadcrumbs, error topic and pilot: "
            "what fails ends it, and after a crash nobody knows what is written",
        ),
    ]


def peers(parts: Collection[Part]) -> list[Row]:
    if Part.TOPIC not in parts:
        return []
    client = f"{version('confluent-kafka')} (librdkafka {confluent_kafka.libversion()[0]})"
    return [
        (
            "written by hand",
            client,
            f"{_spark()}; foreachBatch with mapInArrow: orjson {version('orjson')} reads every value, a producer of "
            "confluent-kafka for each task (acks all, idempotence, linger 1 ms), flushed at its end; no ids, headers "
            "or error topic: one bad value ends it; at-least-once",
        ),
        (
            "Spark's Kafka sink",
            f"spark-sql-kafka {pyspark.__version__}",
            f"{_spark()}; writeStream.format('kafka') at its defaults; key and value as they are, nobody looks at "
            "them; at-least-once",
        ),
    ]


def drivers(parts: Collection[Part], records: int) -> list[Row]:
    if Part.RECOVERY not in parts:
        return []
    process = ProcessSettings()
    contract = (
        f"batches of {batch_of_recovery(records):,} records, killed in the second; leases of {process.lease_s:g} s, "
        f"renewed every {process.heartbeat_s:g} s; the next driver asks for the stage all the time"
    )
    return [("the killed driver", towpath_version(), contract)]


def kafka(server: KafkaServer) -> Row:
    return ("Apache Kafka", server.version, f"one broker, {PARTITIONS} partitions")


def elasticsearch(server: ElasticsearchServer) -> Row:
    return ("Elasticsearch", server.version, "one node, one shard an index, no replica, refresh every 30 s")
