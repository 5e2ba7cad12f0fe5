"""A closing step at work on Spark: from the files that were collected to the files of its result. Loads pyspark."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.errors import BadFlow
from towpath.flow.graph.nodes import ClosingStep
from towpath.gateway.outlet.sinks import frame_of
from towpath.gateway.outlet.store import CLOSING, lines_name
from towpath.spark.java import how_java_ended

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


JOB_GROUP = "towpath-closing"


class CollectedRows(NamedTuple):
    """What a step is given under one name."""

    paths: Sequence[Path]
    schema: str


class ClosingJob:
    """Runs closing steps, one after the other."""

    def __init__(self, open_spark: Callable[[], SparkSession]) -> None:
        self._open_spark = open_spark

    def run(self, step: ClosingStep, collected: Sequence[CollectedRows], directory: Path) -> None:
        """Make `directory`/closing. It is there as a whole or not at all, and who comes second changes nothing.

        1. The rows are written to a hidden directory. 2. They are on the disk. 3. It is renamed: now it counts.
        """
        target = directory / CLOSING
        if target.is_dir():
            return
        _remove_left(directory)
        aside = directory / f".{CLOSING}-{uuid4().hex[:12]}"
        try:
            self._write(step, collected, aside)
            _settle(aside)
            crash.here(CrashPoint.CLOSING_WRITTEN)
            aside.rename(target)
            _sync(directory)
        except Exception:
            if not target.is_dir():
                raise
            return  # somebody else was faster, and has taken us for dead; one is as good as the other
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        crash.here(CrashPoint.CLOSING_RENAMED)

    def cancel(self) -> None:
        """End what runs now."""
        self._open_spark().sparkContext.cancelJobGroup(JOB_GROUP)

    @property
    def is_possible(self) -> bool:
        """Whether Spark's Java process lives."""
        return how_java_ended(self._open_spark()) is None

    def _write(self, step: ClosingStep, collected: Sequence[CollectedRows], aside: Path) -> None:
        from pyspark.sql import functions as F

        spark = self._open_spark()
        spark.sparkContext.setJobGroup(JOB_GROUP, f"{step.name} at the end of an upload of {step.stream}", True)
        frame = _checked(step, step(*(frame_of(spark, each.paths, each.schema) for each in collected)))
        ordered = frame.orderBy(*(_named(name) for name in step.order_by or frame.columns))
        # All columns stand in each line, so that all lines have the same.
        line = F.to_json(F.struct(*(_named(name) for name in frame.columns)), {"ignoreNullFields": "false"})
        aside.parent.mkdir(parents=True, exist_ok=True)
        ordered.select(line.alias("value")).write.text(aside.as_uri())


def _checked(step: ClosingStep, frame: DataFrame) -> DataFrame:
    columns = getattr(frame, "columns", None)
    if not isinstance(columns, list):
        raise BadFlow(f"step {step.name!r} returned {type(frame).__name__}, not a DataFrame")
    if not columns or len(set(columns)) < len(columns):
        raise BadFlow(f"step {step.name!r} gives the columns {columns}; it needs some, each once")
    if missing := [name for name in step.order_by if name not in columns]:
        raise BadFlow(f"step {step.name!r} is ordered by {missing[0]!r}, and gives the columns {columns}")
    return frame


def _named(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def _settle(aside: Path) -> None:
    """Names as all result files have them, without what Spark leaves beside them, on the disk."""
    parts = sorted(each for each in aside.iterdir() if each.name.startswith("part-"))
    for each in aside.iterdir():
        if each not in parts or not each.stat().st_size:
            each.unlink()
    for number, each in enumerate(part for part in parts if part.exists()):
        _sync(each)
        each.rename(aside / lines_name(0, number, CLOSING, str(number)))
    _sync(aside)


def _remove_left(directory: Path) -> None:
    """What a killed attempt has left. One that is taken for dead and goes on fails, or is not needed."""
    for each in directory.glob(f".{CLOSING}-*") if directory.is_dir() else ():
        shutil.rmtree(each, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
