"""Who takes part, in which version, with which settings and under which contract."""

from __future__ import annotations

from collections.abc import Mapping

import pyspark

from bench.environment import towpath_version
from bench.gateway.lines import Part
from towpath.settings import SparkSettings

Row = tuple[str, str, str]
SETTINGS = {
    "Apache Kafka": "one broker on the same machine, empty in each turn",
    "PostgreSQL": "fsync and synchronous_commit on, on the same machine, empty in each turn",
}


def rows(parts: tuple[Part, ...], versions: Mapping[str, str]) -> list[Row]:
    """`versions` are those of the servers that were used."""
    found = [("Towpath", towpath_version(), "default settings; `towpath send` and `towpath receive`, CSV without gzip")]
    if Part.FLIGHTS in parts:
        found.append(_batch_job())
    return found + [(name, version, SETTINGS[name]) for name, version in versions.items()]


def _batch_job() -> Row:
    return (
        "plain Spark job",
        pyspark.__version__,
        f"examples/flights/batch_job.py, {SparkSettings().master}, on a Spark that is up; reads the CSV files and "
        "writes CSV files; a bad line is left out without a trace, and after a crash it begins anew",
    )
