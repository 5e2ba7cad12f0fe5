"""What a plan asks of DataFrames, and does with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from towpath.flow.worker.reading import UNMET
from towpath.flow.worker.records import RECORD

UNION = "Union"
CLOCKS = frozenset({"CurrentTimestamp", "CurrentDate", "CurrentTime", "LocalTimestamp", "Now"})
# What takes rows one by one, in their order and place. All else may drop, double or scatter the rows of an input.
ROW_BY_ROW = frozenset(
    {"Project", "Filter", "Generate", "SubqueryAlias", "MapInArrow", "LogicalRDD", "LocalRelation", "Relation"}
    | {"StreamingDataSourceV2Relation", "StreamingDataSourceV2ScanRelation", "RelationV2", "DataSourceV2Relation"}
)


def with_set_headers(records: DataFrame) -> DataFrame:
    """The records with an empty list of headers where they have none.

    For each row that Spark adds to an Arrow batch it asks how large the batch is, and Arrow's lists then go through
    all rows since the last one that is set: with none set that is quadratic, and costs more than all the rest.
    """
    empty = F.array().cast(records.schema["headers"].dataType)
    return records.withColumn("headers", F.coalesce("headers", empty))


def only(frame: DataFrame, names: Sequence[str], has_unmet: bool) -> DataFrame:
    return frame.select(*(F.col(f"`{name}`") for name in names), RECORD, *([UNMET] if has_unmet else []))


def operations(frame: DataFrame) -> set[str]:
    """The kinds of operations of which the frame is made."""
    return {node.nodeName() for node in _nodes(frame._jdf.queryExecution().analyzed())}


def nothing(rows: Iterable[Any]) -> None:
    for _ in rows:
        pass


def together(frame: DataFrame, buckets: int) -> DataFrame:
    """The rows of each input next to each other again: only so they can be numbered, and fail together.

    An input has the same bucket on every attempt: Spark does not change a number that it was given.
    """
    input = [F.col(f"{RECORD}.{name}") for name in ("topic", "partition", "offset")]
    return frame.repartition(buckets, *input).sortWithinPartitions(*input)


def is_deterministic(before: DataFrame, after: DataFrame) -> bool:
    """Whether what a step has made of a frame is the same however often it is done, as far as Spark can tell.

    What is not row by row depends on the order of rows, or on other data; a function of the user's that is given whole
    batches may do anything; and Spark takes the time of day for a constant, which it is for one job only.
    """
    plan = after._jdf.queryExecution().analyzed()
    if not plan.deterministic() or not operations(after) <= ROW_BY_ROW:
        return False
    return count_of("MapInArrow", after) == count_of("MapInArrow", before) and not _expressions(plan) & CLOCKS


def count_of(operation: str, frame: DataFrame) -> int:
    """How often an operation is in the plan of a frame."""
    return sum(node.nodeName() == operation for node in _nodes(frame._jdf.queryExecution().analyzed()))


def _nodes(plan: Any) -> Iterator[Any]:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        yield node
        children = node.children()
        waiting += [children.apply(at) for at in range(children.size())]


def _expressions(plan: Any) -> set[str]:
    """The kinds of expressions in a plan."""
    found: set[str] = set()
    for node in _nodes(plan):
        roots = node.expressions()
        for at in range(roots.size()):
            found.update(each.getClass().getSimpleName() for each in _nodes(roots.apply(at)))
    return found


def identities(frame: DataFrame) -> dict[str, Any]:
    """For each column the number by which Spark's plan knows it: the same number is the same values."""
    output = frame._jdf.queryExecution().analyzed().output()
    found: dict[str, Any] = {}
    for at in range(output.size()):
        attribute = output.apply(at)
        found[attribute.name()] = attribute.exprId().id()
    return found


def spark_schema(schema: pa.Schema) -> Any:
    return from_arrow_schema(schema, prefer_timestamp_ntz=False)
