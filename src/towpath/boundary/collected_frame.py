"""Collected rows as DataFrames. Loads pyspark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.boundary.collected import UPLOADS
from towpath.boundary.result_files import COLLECTED, files_in, stage_directories
from towpath.errors import BadSettings
from towpath.flow.text.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of_all(spark: SparkSession, name: str, schema: str, upload: str) -> DataFrame:
    """The rows of all uploads that are there, with the id of the upload as a column."""
    environment = spark.sparkContext.environment
    if UPLOADS not in environment:
        raise BadSettings(f"this Spark session does not know the directory of uploads ({UPLOADS})")
    root = Path(environment[UPLOADS])
    found = sorted(root.glob(f"*/{COLLECTED}/{name}")) if root.is_dir() else []
    paths = [file.path for each in found for stage in stage_directories(each) for file in files_in(stage)]
    with_upload = schema if upload in Schema.of(schema).names else f"`{upload}` string, {schema}"
    # Files of an upload that ends meanwhile are gone; whoever looks up in them wants those of other uploads.
    return frame_of(spark, paths, with_upload, may_miss=True)


def frame_of(spark: SparkSession, paths: Sequence[Path], schema: str, *, may_miss: bool = False) -> DataFrame:
    """The rows of files. A row that does not fit the schema fails what reads it: nothing is changed silently."""
    if not paths:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema).option("mode", "FAILFAST").option("ignoreMissingFiles", may_miss)
    return reader.json([path.as_uri() for path in paths])


def told_root(spark: SparkSession, root: Path) -> SparkSession:
    """The session, whose workers know the directory of uploads from now on."""
    spark.sparkContext.environment[UPLOADS] = str(root)
    return spark
