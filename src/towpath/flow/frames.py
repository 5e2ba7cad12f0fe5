"""What a plan asks of DataFrames, and does with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from towpath.flow.worker.reading import UNMET
from towpath.flow.worker.records import RECORD

UNION = "Union"
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
    found: set[str] = set()
    waiting = [frame._jdf.queryExecution().analyzed()]
    while waiting:
        node = waiting.pop()
        found.add(node.nodeName())
        children = node.children()
        waiting += [children.apply(at) for at in range(children.size())]
    return found


def nothing(rows: Iterable[Any]) -> None:
    for _ in rows:
        pass


def together(frame: DataFrame) -> DataFrame:
    """The rows of each input next to each other again: only so they can be numbered, and fail together."""
    input = [F.col(f"{RECORD}.{name}") for name in ("topic", "partition", "offset")]
    return frame.repartition(*input).sortWithinPartitions(*input)


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
