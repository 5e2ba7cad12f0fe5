"""Both logs on a standalone cluster: executors in processes of their own read what a local session reads."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.integration.test_spark_source import ODD, expected

from towpath.db import open_database
from towpath.log import open_log
from towpath.settings import DatabaseSettings, LogSettings
from towpath.stack.kafka import KafkaServer
from towpath.stack.spark_cluster import SparkCluster

pytestmark = pytest.mark.part("flows")

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import json, sys
from pathlib import Path
from tests.support.spark import Following, records
from towpath.db import open_database
from towpath.log import open_log
from towpath.log.spark.source import read_batch, read_stream
from towpath.settings import DatabaseSettings, LogSettings, SparkSettings
from towpath.spark.session import build_session

told = json.loads(sys.argv[1])
settings = SparkSettings(master=told["master"], executor_memory="512m")
session = build_session(settings, connector=True)
assert session.sparkContext.master == told["master"]
for number, url in enumerate(told["logs"]):
    log = open_log(LogSettings(url=url), open_database(DatabaseSettings(url=told["database"])))
    batch = records(read_batch(session, log, [told["topic"]]))
    stream = Following(read_stream(session, log, [told["topic"]]), Path(told["checkpoints"], str(number))).run()
    print(repr(batch), repr(stream), sep="\\n")
session.stop()
"""


@pytest.mark.timeout(300)  # a second Spark starts, with executors of its own
def test_cluster_reads_both_logs(spark_cluster: SparkCluster, kafka: KafkaServer, tmp_path: Path, name: str) -> None:
    """In a process of its own: this one has a session already."""
    told = {
        "master": spark_cluster.url,
        "logs": ["embedded", kafka.url],
        "database": f"sqlite:///{tmp_path}/towpath.db",
        "topic": name,
        "checkpoints": str(tmp_path / "checkpoints"),
    }
    with closing(open_database(DatabaseSettings(url=f"sqlite:///{tmp_path}/towpath.db"))) as database:
        for url in ("embedded", kafka.url):
            with closing(open_log(LogSettings(url=url), database)) as log:
                log.create_topic(name, 3, retention_s="never")
                log.append(name, ODD)
    command = [sys.executable, "-c", PROGRAM, json.dumps(told)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout.splitlines() == [repr(expected(name))] * 4, done.stderr
