"""SparkCluster: a real master and a real worker that do work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from towpath.stack import processes
from towpath.stack.server import Server
from towpath.stack.spark_cluster import SparkCluster
from towpath.testing.waiting import wait_until

PROGRAM = """
import sys
from pyspark import SparkConf, SparkContext

settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"}
context = SparkContext(sys.argv[1], conf=SparkConf().setAll(settings.items()))
print("sum", context.parallelize(range(100), 2).map(lambda n: n * 2).sum())
context.stop()
"""


def test_it_fits_the_shape(spark_cluster: SparkCluster) -> None:
    assert isinstance(spark_cluster, Server)
    assert spark_cluster.is_healthy()
    assert len(spark_cluster.pids) == 2
    assert spark_cluster.settings == {"spark": {"master": f"spark://127.0.0.1:{spark_cluster.port}"}}


def test_it_does_the_work_of_an_application(spark_cluster: SparkCluster) -> None:
    words = [sys.executable, "-c", PROGRAM, spark_cluster.url]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert "sum 9900" in done.stdout, done.stderr


def test_a_worker_that_died_is_noticed_and_started_again(spark_cluster: SparkCluster) -> None:
    worker, address = spark_cluster.workers[0], spark_cluster.url
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    wait_until(lambda: not spark_cluster.is_healthy(), 30, "the cluster is not whole")
    spark_cluster.start()
    assert spark_cluster.is_healthy()
    pids = spark_cluster.pids
    spark_cluster.stop()
    assert [member for pid in pids for member in processes.group_members(pid)] == []
    spark_cluster.start()
    assert spark_cluster.url == address
