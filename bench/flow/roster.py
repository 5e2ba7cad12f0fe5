"""Who takes part, in which version, with which settings and under which contract."""

from __future__ import annotations

import pyspark

from bench.environment import towpath_version
from bench.flow import rsyslog
from bench.flow.peers import PEERS
from bench.flow.settings import CHUNK, MASTER, MAX_BATCH_RECORDS, MEMORY
from bench.flow.workload import PARTITIONS
from towpath.stack.kafka import KafkaServer
from towpath.stack.search import ElasticsearchServer

ABSENT = "—"


def who_took_part(kafka: KafkaServer, elasticsearch: ElasticsearchServer) -> list[tuple[str, str, str]]:
    pins = PEERS.versions
    spark = f"Spark {pyspark.__version__}, {MASTER}, {MEMORY}, batches of {MAX_BATCH_RECORDS:,} records"
    client = f"elasticsearch {pins['elasticsearch']} with orjson {pins['orjson']}"
    return [
        ("towpath", towpath_version(), f"{spark}; its default settings: strict JSON, ledger, error topic"),
        ("Apache Kafka", kafka.version, f"one broker, {PARTITIONS} partitions"),
        ("Elasticsearch", elasticsearch.version, "one node, one shard an index, no replica, refresh every 30 s"),
        (
            "the usual Spark way",
            pyspark.__version__,
            f"{spark}; elasticsearch {pins['elasticsearch']}, bulk() as it comes",
        ),
        (
            "written by hand",
            pins["confluent-kafka"],
            f"2 processes; {client}, parallel_bulk() with 2 threads and 2,000 documents a request; commits after each "
            "10,000 records",
        ),
        (
            "Quix Streams",
            pins["quixstreams"],
            "2 processes; its Elasticsearch sink, 2,000 documents a request; commits every second; one index, ids "
            "from keys",
        ),
        (
            "rsyslog",
            _rsyslog_version(),
            f"imkafka and omelasticsearch, 2 worker threads, batches of {CHUNK:,}; neither validates nor dispatches, "
            "ids are made up; may lose records in a crash",
        ),
        ("ready-made bodies", ABSENT, f"made before the clock starts; 2 threads post {CHUNK:,} documents a request"),
    ]


def _rsyslog_version() -> str:
    try:
        return rsyslog.fetched().version
    except Exception as error:
        return f"not to be had: {error}"
