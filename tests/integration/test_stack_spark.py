"""SparkCluster: a real master and a real worker that do work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from towpath.core import os_processes as processes
from towpath.spark import cluster as cluster_secret
from towpath.spark.artifacts import cache_directory
from towpath.stack.server import Server
from towpath.stack.spark_cluster import SparkCluster
from towpath.testing.clock import wait_until

pytestmark = pytest.mark.part("kills")

PROGRAM = """
import sys
from pyspark import SparkConf, SparkContext

settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"}
settings |= dict(line.split() for file in sys.argv[2:] for line in open(file))
context = SparkContext(sys.argv[1], conf=SparkConf().setAll(settings.items()))
print("sum", context.parallelize(range(100), 2).map(lambda n: n * 2).sum())
context.stop()
"""

# No cluster is needed for this: a session that has a secret to keep.
SESSION = """
from towpath.settings import SparkSettings
from towpath.spark.session import build_session
from towpath.core import os_processes as processes

secret = "".join(["not", "for", "everybody"])
conf = {"spark.authenticate": "true", "spark.authenticate.secret": secret}
session = build_session(SparkSettings(master="local[1]", conf=conf))
running = [processes.find_process(int(path.name)) for path in processes.PROC.glob("[0-9]*")]
print(session.sparkContext.getConf().get("spark.authenticate.secret") == secret)
print([it for it in running if it is not None and it.is_marked(secret)])
session.stop()
"""
ENVIRONMENT = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


def test_it_fits_the_shape(spark_cluster: SparkCluster) -> None:
    assert isinstance(spark_cluster, Server)
    assert spark_cluster.is_healthy()
    assert len(spark_cluster.pids) == 2
    assert spark_cluster.settings == {"spark": {"master": f"spark://127.0.0.1:{spark_cluster.port}"}}


def test_it_does_the_work_of_an_application(spark_cluster: SparkCluster) -> None:
    words = [sys.executable, "-c", PROGRAM, spark_cluster.url, str(spark_cluster.properties_file)]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=100, check=False)
    assert "sum 9900" in done.stdout, done.stderr


def test_it_does_no_work_for_somebody_who_does_not_know_its_secret(spark_cluster: SparkCluster) -> None:
    """Any user of this machine can reach the port; as root that would be the way to become root."""
    kept = [spark_cluster.properties_file, *(cache_directory() / "spark-secrets").iterdir()]
    assert [path for path in kept if is_open_to_others(path)] == []
    refused = "SaslMessage"
    before = spark_cluster.master.log.read_text().count(refused)
    words = [sys.executable, "-c", PROGRAM, spark_cluster.url]
    stranger = subprocess.Popen(
        words, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    try:
        wait_until(lambda: spark_cluster.master.log.read_text().count(refused) > before, 60, "it is refused")
    finally:
        os.killpg(stranger.pid, signal.SIGKILL)
    assert stranger.communicate()[0] == ""
    assert spark_cluster.is_healthy()


def is_open_to_others(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & 0o077)
    except FileNotFoundError:  # of a cluster of another process, which has just ended
        return False


def test_a_secret_is_on_no_command_line() -> None:
    done = subprocess.run([sys.executable, "-c", SESSION], capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == "True\n[]\n", done.stderr


def test_a_worker_that_died_is_noticed_and_started_again(spark_cluster: SparkCluster) -> None:
    worker, address = spark_cluster.workers[0], spark_cluster.url
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    wait_until(lambda: not spark_cluster.is_healthy(), 30, "the cluster is not whole")
    spark_cluster.start()
    assert spark_cluster.is_healthy()
    pids = spark_cluster.pids
    SparkCluster(spark_cluster.data_dir).stop()  # as `reset` does it, which does not know the port
    assert [member for pid in pids for member in processes.group_members(pid)] == []
    assert cluster_secret.properties_for(address) == {}
    spark_cluster.start()
    assert spark_cluster.url == address
