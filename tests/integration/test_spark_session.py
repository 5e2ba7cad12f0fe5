"""Starting Spark, and what is said when it does not start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Any

import py4j
import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from towpath.errors import BadSettings, NotInstalled, SparkFailed
from towpath.flow.worker.daemon import NEEDED
from towpath.settings import SparkSettings
from towpath.spark import java
from towpath.spark.java import spark_home
from towpath.spark.session import build_session, linked_home

pytestmark = pytest.mark.timeout(300)  # the first test waits for Spark to start

# Java itself says this about a module that Spark's launcher adds; nothing can silence it.
INCUBATOR = "WARNING: Using incubator modules: jdk.incubator.vector\n"

QUIET = """
from towpath.settings import SparkSettings
from towpath.spark.session import build_session
session = build_session(SparkSettings(master="local[1]", conf={"spark.driver.extraJavaOptions": "-Dmine=yes"}))
print(session.range(3).count(), session._jvm.System.getProperty("mine"), session.conf.get("spark.sql.session.timeZone"))
try:
    session.sql("select cast('x' as int)").collect()
except Exception as error:
    print(type(error).__name__)
try:
    build_session(SparkSettings(master="local[1]"), connector=True)
except Exception as error:
    print(error)
"""

DYING = """
from towpath.settings import SparkSettings
from towpath.spark.session import build_session
try:
    build_session(SparkSettings(master="local[1]", memory="9999999g"))
except Exception as error:
    print(type(error).__name__, error)
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)


@pytest.mark.part("flows")
def test_session_is_quiet_and_keeps_the_users_own_options() -> None:
    """A first session without the connector cannot be given one later: its Java process is made once."""
    done = run(QUIET)
    *said, refused = done.stdout.splitlines()
    assert said == ["3 yes UTC", "NumberFormatException"]
    assert "connector" in refused
    assert done.stderr.replace(INCUBATOR, "") == ""


def test_java_that_dies_while_starting_is_one_error() -> None:
    *java_said, error = run(DYING).stdout.splitlines()
    assert "object heap" in java_said[-1]
    assert error.startswith("SparkFailed ")
    assert "spark.memory (9999999g)" in error


@pytest.mark.part("flows")
def test_second_session_of_a_process_is_the_first(spark: SparkSession) -> None:
    """Also in another thread, which has a thread of its own in Java."""
    with ThreadPoolExecutor(1) as pool:
        again = pool.submit(build_session, SparkSettings(master="local[2]"), connector=True).result()
    assert again.sparkContext is spark.sparkContext
    with pytest.raises(SparkFailed, match=r"local\[2\] .*local\[3\]"):
        build_session(SparkSettings(master="local[3]"))


def test_workers_are_born_with_what_flows_need(spark: SparkSession) -> None:
    """A function that is pickled as it stands, from a module that workers cannot import, loads nothing itself."""
    born_with: dict[str, Any] = {}
    exec(dedent(BORN_WITH), born_with)
    [row] = spark.range(1).mapInArrow(born_with["names"], "name string").collect()
    assert set(NEEDED) <= set(row.name.split())


BORN_WITH = """
    def names(batches):
        import sys
        loaded = " ".join(sys.modules)
        import pyarrow
        for _ in batches:
            yield pyarrow.RecordBatch.from_pydict({"name": [loaded]})
"""


def test_its_python_processes_take_the_installed_pyspark(spark: SparkSession) -> None:
    """That in Spark's own zip files has no bytecode: to import it takes half a second longer, each time."""

    def where(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"path": [pyspark.__file__, py4j.__file__]})

    rows = spark.range(1, numPartitions=1).mapInArrow(where, "path string").collect()
    assert {Path(row.path).parent for row in rows} == {spark_home(), spark_home().parent / "py4j"}


def test_where_no_links_can_be_made_it_is_sparks_own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    linked = linked_home()
    assert linked.is_relative_to(tmp_path)
    assert {path.name for path in linked.iterdir()} == {"bin", "jars"}
    assert linked_home() == linked
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert linked_home() == spark_home()


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has started none."""
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)


@pytest.mark.usefixtures("no_session")
def test_missing_and_wrong_java_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"spark\.java_home"):
        build_session(SparkSettings(java_home=str(tmp_path)))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "USUAL_PLACES", ())
    with pytest.raises(NotInstalled, match="Java 17 or 21"):
        build_session(SparkSettings())


@pytest.mark.usefixtures("no_session")
def test_cluster_that_is_not_there_is_said_at_once() -> None:
    with pytest.raises(SparkFailed, match=r"spark://127\.0\.0\.1:1"):
        build_session(SparkSettings(master="spark://127.0.0.1:1"))


@pytest.mark.usefixtures("no_session")
def test_another_spark_by_variable_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(BadSettings, match="SPARK_HOME"):
        build_session(SparkSettings())
