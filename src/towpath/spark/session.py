"""The one place that builds a Spark session. A process has one at a time, and one Java process for all of them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from towpath.errors import BadSettings, SparkFailed
from towpath.settings import SparkSettings
from towpath.spark.artifacts import SPARK_KAFKA, Report, fetch
from towpath.spark.cluster_secret import SECRET
from towpath.spark.java import find_java
from towpath.spark.linked_home import linked_home
from towpath.spark.master import check_reachable, is_on_this_host
from towpath.spark.properties import LOOPBACK, PYTHON, check_settings, properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
# They print a trace for each failed expression, whatever the log level is; the exception tells the same.
NOISY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def build_session(
    settings: SparkSettings, name: str = "towpath", *, connector: bool = False, report: Report | None = None
) -> SparkSession:
    """The session of this process, started if there is none yet; `connector`: it must be able to read and write Kafka.

    Raises `BadSettings`, `NotInstalled` (Java), `FetchFailed` (the connector) or `SparkFailed`. pyspark and Java are
    loaded here and not before.
    """
    check_settings(settings)
    session = _running(settings) or _start(settings, name, connector, report)
    if connector:
        check_connector(session)
    return session


def _running(settings: SparkSettings) -> SparkSession | None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is None:
        return None
    if context.master != settings.master:
        raise SparkFailed(
            f"this process has a Spark session on {context.master} already and can have none on {settings.master}; "
            "stop the first one, or use another process"
        )
    return SparkSession(context)


def _start(settings: SparkSettings, name: str, connector: bool, report: Report | None) -> SparkSession:
    java = find_java(settings.java_home)
    _check_spark_home()
    jars = sorted(fetch(SPARK_KAFKA, java, report).glob("*.jar")) if connector else []
    check_reachable(settings.master)
    wanted = properties(settings, name, jars)
    variables = {"JAVA_HOME": str(java.home), "PYSPARK_PYTHON": wanted[PYTHON]}
    if is_on_this_host(settings.master):
        variables["SPARK_LOCAL_IP"] = LOOPBACK  # the only way to keep Spark's web pages off the network
    if "SPARK_HOME" not in os.environ and wanted[PYTHON] == sys.executable:  # another Python may have no pyspark
        variables["SPARK_HOME"] = str(linked_home())
    with _environment(variables):
        session = _launch(settings, wanted)
    _silence()
    return session


def _launch(settings: SparkSettings, wanted: Mapping[str, str]) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        # pyspark starts Java with all properties on its command line, which every user of this machine can read. A
        # Java that runs already is told the rest through its socket.
        public = [(key, value) for key, value in wanted.items() if key != SECRET]
        SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(public))
        return SparkSession.builder.config(map=dict(wanted)).getOrCreate()
    except PySparkException as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise SparkFailed(f"Spark could not start on {settings.master}: {_first_line(error)}") from error
        raise SparkFailed(
            "Spark's Java process ended while it was starting; what it said itself stands above. "
            f"Look at spark.memory ({settings.memory}) and spark.conf"
        ) from error
    except (Py4JError, OSError) as error:
        raise SparkFailed(f"Spark could not start on {settings.master}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """What happened, without the trace: the innermost cause knows best."""
    cause: Any = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    said = str(error) if cause is None else str(cause.getMessage() or cause.toString())
    return said.strip().partition("\n")[0]


def _check_spark_home() -> None:
    """Another Spark than pyspark's own fails much later, and in strange ways."""
    import pyspark

    home = os.environ.get("SPARK_HOME")
    if home and not list(Path(home, "jars").glob(f"spark-core_*-{pyspark.__version__}.jar")):
        raise BadSettings(
            f"variable SPARK_HOME: {home} is not a Spark {pyspark.__version__}; unset it to use pyspark's own"
        )


def check_connector(session: SparkSession) -> None:
    """Raise `SparkFailed` when the session can neither read nor write Kafka."""
    # A class loader gets jars when its Java process starts: a later session of the same process cannot add them.
    from py4j.protocol import Py4JJavaError

    jvm: Any = session._jvm
    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        jvm.java.lang.Class.forName(CONNECTOR_CLASS, False, loader)
    except Py4JJavaError as error:
        raise SparkFailed(
            "this process's Spark was started without the Kafka connector; start the first session with it"
        ) from error


def _silence() -> None:
    from pyspark.logger import PySparkLogger

    for name in NOISY_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    # Prints what a function called by Spark has raised; whoever waits for the query gets it.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Variables for the Java process that is started inside; afterwards this process has its own again."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
