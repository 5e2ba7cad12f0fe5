"""From settings to the properties of a Spark session; what cannot work is refused here."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from towpath.errors import BadSettings
from towpath.settings import SparkSettings
from towpath.spark.cluster_secret import properties_for
from towpath.spark.master import is_local, is_on_this_host

LOOPBACK = "127.0.0.1"
# A shuffle of a micro-batch on one machine is small: Spark's 200 partitions would cost a task, and with state a store
# on disk, each. Nor does the number follow the machine's cores: a stateful query keeps the one it was begun with.
LOCAL_SHUFFLE_PARTITIONS = 4
ARROW_BATCH_RECORDS = 10_000
JARS = "spark.jars"
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
PYTHON = "spark.pyspark.python"
WORKER_DAEMON = "towpath.flow.worker_daemon"  # by its name: only Spark starts it


def check_settings(settings: SparkSettings) -> None:
    """Raise `BadSettings` for ways of running Spark that Towpath cannot use."""
    conf = settings.conf
    inside = "Towpath's own process must be the driver of Spark"
    if conf.get("spark.submit.deployMode", "client") != "client":
        raise BadSettings(f"spark.conf: spark.submit.deployMode must be client: {inside}")
    if "spark.remote" in conf or conf.get("spark.api.mode", "classic") != "classic":
        raise BadSettings(f"spark.conf: Spark Connect (spark.remote, spark.api.mode) cannot be used: {inside}")
    if os.environ.get("SPARK_REMOTE"):
        raise BadSettings(f"variable SPARK_REMOTE: Spark Connect cannot be used: {inside}; unset it")
    if "spark.master" in conf:
        raise BadSettings("spark.conf: spark.master is the setting spark.master; put it there")
    if settings.ui and not is_on_this_host(settings.master):
        raise BadSettings(
            "spark.ui: a driver with executors on other hosts would show Spark's pages to the whole network; "
            'set "spark.ui.enabled" in spark.conf if that is wanted'
        )


def properties(settings: SparkSettings, name: str, jars: Sequence[Path] = ()) -> dict[str, str]:
    """All properties that the session is started with. The user's own overrule these, and join where both count."""
    conf = dict(settings.conf)
    merged = {**_common(settings, name), **_by_place(settings), **properties_for(settings.master), **conf}
    merged[JAVA_OPTIONS] = f"{_java_options(settings)} {conf.get(JAVA_OPTIONS, '')}".strip()
    all_jars = [*map(str, jars), *filter(None, conf.get(JARS, "").split(","))]
    if all_jars:
        merged[JARS] = ",".join(all_jars)
    return merged


def _common(settings: SparkSettings, name: str) -> dict[str, str]:
    return {
        "spark.app.name": name,
        "spark.master": settings.master,
        "spark.driver.memory": settings.memory,
        PYTHON: sys.executable,  # `python3` on the path is another one than that of a virtual environment
        "spark.pyspark.driver.python": sys.executable,
        "spark.python.daemon.module": WORKER_DAEMON,
        # State knows no short traces: workers with and without them are two kinds, each with a daemon of its own.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        "spark.ui.enabled": "true" if settings.ui else "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_RECORDS),
    }


def _by_place(settings: SparkSettings) -> dict[str, str]:
    placed: dict[str, str] = {}
    if is_on_this_host(settings.master):
        placed |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
        placed["spark.sql.shuffle.partitions"] = str(LOCAL_SHUFFLE_PARTITIONS)
    if not is_local(settings.master):
        placed["spark.executor.memory"] = settings.executor_memory
    return placed


def _java_options(settings: SparkSettings) -> str:
    # As default options: what the user gives in spark.driver.extraJavaOptions stands after them and wins.
    file = resources.files("towpath.spark") / "log4j2.properties"
    # Whoever sees errors only gets their traces with the exception that is raised in Python; once is enough.
    is_quiet = settings.log_level in ("error", "off")
    trace = "short.message" if is_quiet else "full"
    failures = "off" if is_quiet else settings.log_level
    return (
        f'"-Dlog4j2.configurationFile={file}" -Dtowpath.spark.level={settings.log_level} -Dtowpath.spark.trace={trace} '
        f"-Dtowpath.spark.failures={failures}"
    )
