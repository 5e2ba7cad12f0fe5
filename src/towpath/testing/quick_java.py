"""Javas that live for seconds: most of their work is to load and to compile themselves.

Tests start Spark hundreds of times. Its classes come from an archive, which is made once for an environment, and the
compiler that makes code fast for those who run it for minutes is left out. Nothing else is different.

    python -m towpath.testing.quick_java    makes the archive, unless it is there
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.stack import kafka, search

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ARCHIVE = Path(sys.prefix) / f"spark-{version('pyspark')}.jsa"
FIRST_COMPILER_ONLY = "-XX:TieredStopAtLevel=1"
# The first compiler alone gets little room for its code, and would throw away what it has to make again; one collector
# in the thread that needs room takes less of two processors than several beside it.
FRUGAL = "-XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
# An archive of another Java or of other jars is passed over without a word.
FROM_ARCHIVE = f"-XX:SharedArchiveFile={ARCHIVE} -Xshare:auto -Xlog:cds*=off -Xlog:class+path*=off"
MAKE_TIMEOUT_S = 300


def quicken_spark() -> None:
    """For every Spark that this process and its children start from now on; what the user has set stays."""
    options = [FIRST_COMPILER_ONLY, FRUGAL, *([FROM_ARCHIVE] if ARCHIVE.exists() else [])]
    os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(options))
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", FIRST_COMPILER_ONLY)  # of the Java that puts the command line together


def quicken_servers() -> None:
    """The brokers and search nodes that this process itself starts from now on."""
    for module in (kafka, search):
        setattr(module, "HEAP", (*module.HEAP, FIRST_COMPILER_ONLY))  # noqa: B010  its type has as many as there are


def make_archive() -> None:
    """Write the archive: all that a session, a query and its workers have loaded goes into it."""
    aside = ARCHIVE.with_suffix(f".{os.getpid()}")
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={aside} -Xlog:cds*=off"}
    subprocess.run(
        [sys.executable, "-m", __spec__.name, "--load"],
        env=environment,
        check=True,
        timeout=MAKE_TIMEOUT_S,
        capture_output=True,  # until Java has ended too, which writes the archive last
    )
    aside.rename(ARCHIVE)


def load_classes() -> None:
    from towpath.settings import SparkSettings
    from towpath.spark.session import build_session

    session = build_session(SparkSettings(master="local[2]"), connector=True)
    with tempfile.TemporaryDirectory() as home:
        records = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
        counted = records.mapInArrow(lambda batches: batches, records.schema).groupBy("value").count()
        writer = counted.writeStream.outputMode("update").option("checkpointLocation", home)
        writer.foreachBatch(_collect).trigger(availableNow=True).start().awaitTermination()
    session.stop()


def _collect(frame: DataFrame, _: int) -> None:
    frame.collect()


if __name__ == "__main__":
    if "--load" in sys.argv:
        load_classes()
    elif not ARCHIVE.exists():
        make_archive()
