"""The watermark of a join on columns: how far event time has come, and how the workers of a batch know it.

It is the highest time that each input has had in committed batches, of the input that is furthest behind, less what may
be late. It is fixed with the snapshot of a batch, in its row, so every attempt at the batch has the same one, and it
never goes back. An input that has sent nothing yet holds it back: without an end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from towpath.flow.stateful.column_join import ColumnJoin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from towpath.flow.nodes import Source

PROPERTY = "towpath.watermarks"
Times = Mapping[str, int]  # in milliseconds: watermarks by source, event times by source and input


def input_name(source: str, input: str) -> str:
    """By what the event times of an input are known."""
    return f"{source}/{input}"


def later_of(one: Times, other: Times) -> dict[str, int]:
    return {name: max(each[name] for each in (one, other) if name in each) for name in sorted({*one, *other})}


def watermarks(sources: Iterable[Source], event_times: Times, before: Times) -> dict[str, int]:
    """By source. `before`: those of the last batch."""
    found = {source.name: _watermark(source.name, source.join, event_times) for source in sources if is_column(source)}
    return later_of({name: at for name, at in found.items() if at is not None}, before)


def is_column(source: Source) -> bool:
    return isinstance(source.join, ColumnJoin)


def _watermark(source: str, join: object, event_times: Times) -> int | None:
    assert isinstance(join, ColumnJoin)  # noqa: S101 - asked before
    times = [event_times.get(input_name(source, name)) for name in join.names]
    known = [time for time in times if time is not None]
    return min(known) - join.late_ms if len(known) == len(times) else None


def tell_workers(spark: SparkSession, found: Times) -> None:
    """For all jobs that this thread begins: the plan of a query is put together once, and knows no batch."""
    spark.sparkContext.setLocalProperty(PROPERTY, json.dumps(dict(found)))


def told_watermark(source: str) -> int | None:
    """What the driver has told the task that asks. None: nothing is known yet, so nothing is late."""
    from pyspark import TaskContext

    context = TaskContext.get()
    text = None if context is None else context.getLocalProperty(PROPERTY)
    return None if text is None else json.loads(text).get(source)
