"""The one place that builds a Spark session. A process has one at a time, and one Java process for all of them.

What cannot work is refused before Java starts. The properties come from the settings; the user's own overrule them.

Spark is started from a home without the zip files of pyspark that it carries beside the installed one (`linked_home`).
Spark gives each of its Python processes a path with these files first. They have no bytecode, so every such process
would compile pyspark anew: half a second of a processor for each query, each worker that died, and each start.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import site
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from towpath.errors import BadSettings, SparkFailed
from towpath.settings import SparkSettings
from towpath.spark.artifacts import SPARK_KAFKA, Report, cache_directory, fetch
from towpath.spark.cluster import SECRET, check_reachable, is_local, is_on_this_host, properties_for
from towpath.spark.java import find_java, spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
# A shuffle of a micro-batch on one machine is small: Spark's 200 partitions would cost a task, and with state a store
# on disk, each. Nor does the number follow the machine's cores: a stateful query keeps the one it was begun with.
LOCAL_SHUFFLE_PARTITIONS = 4
ARROW_BATCH_RECORDS = 10_000
JARS = "spark.jars"
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
PYTHON = "spark.pyspark.python"
WORKER_DAEMON = "towpath.flow.worker.daemon"  # by its name: only Spark starts it
CONNECTOR_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
# They print a trace for each failed expression, whatever the log level is; the exception tells the same.
NOISY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_LINKED = ("bin", "jars")  # what Java needs of Spark's home


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


def linked_home() -> Path:
    """A directory with links to what Java needs; where none can be made, Spark's own does as well, only slower."""
    home = spark_home()
    if str(home.parent) not in {*site.getsitepackages(), site.getusersitepackages()}:
        return home  # on a path of this process's own, which others do not have
    linked = cache_directory() / "spark" / hashlib.sha256(str(home).encode()).hexdigest()[:12]
    if not _is_whole(linked):
        with contextlib.suppress(OSError):
            _link(linked, home)
    return linked if _is_whole(linked) else home


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


def _check_spark_home() -> None:
    """Another Spark than pyspark's own fails much later, and in strange ways."""
    import pyspark

    home = os.environ.get("SPARK_HOME")
    if home and not list(Path(home, "jars").glob(f"spark-core_*-{pyspark.__version__}.jar")):
        raise BadSettings(
            f"variable SPARK_HOME: {home} is not a Spark {pyspark.__version__}; unset it to use pyspark's own"
        )


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


def _silence() -> None:
    from pyspark.logger import PySparkLogger

    for name in NOISY_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    # Prints what a function called by Spark has raised; whoever waits for the query gets it.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)


def _first_line(error: Exception) -> str:
    """The message of the innermost cause, without its trace."""
    cause: Any = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    said = str(error) if cause is None else str(cause.getMessage() or cause.toString())
    return said.strip().partition("\n")[0]


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


def _is_whole(linked: Path) -> bool:
    return all((linked / part).is_dir() for part in _LINKED)


def _link(linked: Path, home: Path) -> None:
    """All at once: of two processes that make it, one finds it made."""
    linked.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=linked.parent, prefix=".linking-") as scratch:
        made = Path(scratch, "home")
        made.mkdir()
        for part in _LINKED:
            (made / part).symlink_to(home / part)
        made.rename(linked)
