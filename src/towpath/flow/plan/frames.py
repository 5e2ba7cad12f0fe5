"""What a plan asks of DataFrames and does with them: their operations and columns, expectations, filters of steps, and
several DataFrames made one.

`PlanRows` is what a node gives while a plan is put together.

All rows of an input, of whatever branch, must meet in one task: it is delivered as a whole, or fails as a whole
(`pack_branches`). Each branch keeps its columns in a struct of its own, so that nothing is converted and none is taken
for another's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from towpath.errors import BadFlow
from towpath.flow.graph.nodes import Each, Expectation, Fork, Source, Step
from towpath.flow.graph.stages import Stage
from towpath.flow.records.reentry import INPUT_TOPIC
from towpath.flow.worker.context import Reentry
from towpath.flow.worker.preparer import HIDDEN, Columns
from towpath.flow.worker.reader import UNMET, ReadRecords
from towpath.flow.worker.records import RECORD
from towpath.flow.worker.segment import BRANCH, OWN, ReadSources

UNION = "Union"
CLOCKS = frozenset({"CurrentTimestamp", "CurrentDate", "CurrentTime", "LocalTimestamp", "Now"})
# What takes rows one by one, in their order and place. All else may drop, double or scatter the rows of an input.
ROW_BY_ROW = frozenset(
    {"Project", "Filter", "Generate", "SubqueryAlias", "MapInArrow", "LogicalRDD", "LocalRelation", "Relation"}
    | {"StreamingDataSourceV2Relation", "StreamingDataSourceV2ScanRelation", "RelationV2", "DataSourceV2Relation"}
)

_AT = "_at"  # where in its branch a row stands: their order must not depend on that of tasks


@dataclass(frozen=True, slots=True)
class PlanRows:
    """What a node gives: a DataFrame, and the work in Python that is still to be done on it."""

    frame: DataFrame
    begin: ReadRecords | None  # None: the frame has columns and `_record`
    kept: frozenset[str] = frozenset()  # columns that are as they were read
    fields: frozenset[str] | None = None  # the fields that were read into columns; None: no schema
    only: frozenset[str] | None = None  # the fields that may stay in the text; None: all
    unmet: str | None = None  # the step whose expectations are in the frame's column `_unmet`

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in self.frame.columns if name not in (RECORD, UNMET))

    def edits(self) -> Columns:
        """What was done to the fields of the documents."""
        if self.begin is not None:
            return Columns(only=self.only)
        fields = self.fields or frozenset()
        visible = {name for name in self.columns if name in fields or not name.startswith(HIDDEN)}
        changed = frozenset(visible - self.kept)
        return Columns(changed, fields - visible, None if self.only is None else self.only | changed, fields)


def with_set_headers(records: DataFrame) -> DataFrame:
    """The records with an empty list of headers where they have none.

    For each row that Spark adds to an Arrow batch it asks how large the batch is, and Arrow's lists then go through
    all rows since the last one that is set: with none set that is quadratic, and costs more than all the rest.
    """
    empty = F.array().cast(records.schema["headers"].dataType)
    return records.withColumn("headers", F.coalesce("headers", empty))


def columns_of(source: Source) -> pa.Schema:
    """What the records of a source become; none without a schema."""
    return pa.schema([]) if source.schema is None else source.schema.arrow()


def mark_unmet(rows: PlanRows, step: str, rules: Sequence[Expectation]) -> PlanRows:
    """The rows with a column that names the expectations that they do not meet, if there are any rules."""
    if not rules:
        return rows
    names = [F.when(~F.coalesce(F.expr(rule.expression), F.lit(False)), F.lit(rule.name)) for rule in rules]
    unmet = F.nullif(F.concat_ws(", ", *names), F.lit(""))
    return replace(rows, frame=rows.frame.withColumn(UNMET, unmet), unmet=step)


def filter_rows(frame: DataFrame, step: Step | Fork, reentry: str | None = None) -> DataFrame:
    """The rows that the step accepts. What has come back is of the topic in which it was read for the first time."""
    takes = step.takes
    if takes.topics is not None:
        frame = frame.where(_topic(reentry).isin(sorted(takes.topics)))
    if takes.types is not None:
        check_types(frame, step)
        frame = frame.where(F.col(_quoted(takes.type_field)).isin(sorted(takes.types)))
    return frame


def check_types(frame: DataFrame, step: Step | Each | Fork) -> None:
    """`BadFlow` when no row can be of a type: the step would filter everything without a word."""
    if step.takes.types is None:
        return
    field = step.takes.type_field
    columns = {
        column.name: column.dataType.simpleString() for column in frame.schema if column.name not in (RECORD, UNMET)
    }
    if columns.get(field) != "string":
        found = f"is {columns[field]}" if field in columns else "is not there"
        raise BadFlow(
            f"step {step.name!r} takes records by their type, a text in the column {field!r}, which {found}; the "
            f"columns are {', '.join(columns) or 'none, for want of a schema'}. Flow(…, type_field=…) names another"
        )


def group_inputs(frame: DataFrame, buckets: int, *order: str) -> DataFrame:
    """The rows of each input next to each other, in this order: only so they can be numbered, and fail together.

    An input has the same bucket on every attempt: Spark does not change a number that it was given.
    """
    input = [F.col(f"{RECORD}.{name}") for name in ("topic", "partition", "offset")]
    return frame.repartition(buckets, *input).sortWithinPartitions(*input, *order)


def pack_branches(branches: Sequence[tuple[PlanRows, tuple[str, ...]]], buckets: int) -> DataFrame:
    """The rows of all branches with the columns that are named, those of an input together and in a fixed order."""
    structs = [_struct(rows.frame, names) for rows, names in branches]
    types = [struct.schema[OWN].dataType for struct in structs]
    parts = []
    for number, struct in enumerate(structs):
        own = [
            F.col(OWN).alias(f"{OWN}{at}") if at == number else F.lit(None).cast(type).alias(f"{OWN}{at}")
            for at, type in enumerate(types)
        ]
        at = F.monotonically_increasing_id().alias(_AT)
        parts.append(struct.select(F.lit(number).alias(BRANCH), *own, RECORD, UNMET, at))
    union = reduce(lambda one, other: one.unionByName(other), parts)
    return group_inputs(union, buckets, BRANCH, _AT).drop(_AT)


def unite_rows(step: str, inputs: Sequence[tuple[str, PlanRows]]) -> PlanRows:
    """The rows of several nodes for one step; a column that one of them does not have is null in its rows."""
    types: dict[str, tuple[str, str]] = {}
    for name, rows in inputs:
        for column in rows.frame.schema:
            if column.name == RECORD:
                continue
            type = column.dataType.simpleString()
            other, known = types.setdefault(column.name, (name, type))
            if type != known:
                raise BadFlow(
                    f"step {step!r} stands on {other!r} or {name!r}, whose columns {column.name!r} do not fit: {known} "
                    f"and {type}; cast one of them"
                )
    every = [rows for _, rows in inputs]
    if len({rows.only is None for rows in every}) > 1:
        raise BadFlow(f"step {step!r} stands on sources with and without extra='drop'; say the same for all of them")
    frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), [each.frame for each in every])
    kept = [name for name in types if all(name in each.kept or name not in each.columns for each in every)]
    fields = frozenset[str]().union(*(each.fields or () for each in every))
    only = None if every[0].only is None else frozenset[str]().union(*(each.only or () for each in every))
    return PlanRows(frame, None, frozenset(kept), fields, only)


def reader_of(stage: Stage, rows: Sequence[PlanRows], reentry: Reentry | None) -> ReadSources:
    """What reads the records of all sources of a stage, each as its own source says."""
    seen: set[str] = set()
    for source in stage.sources:
        if twice := sorted(seen & set(source.topics)):
            raise BadFlow(
                f"two sources of stage {stage.name!r} read the topic {twice[0]!r}; make one of them, "
                "flow.source(…), and let steps take what they need"
            )
        seen |= set(source.topics)
    begins = tuple(each.begin for each in rows if each.begin is not None)
    return ReadSources(begins, tuple(frozenset(source.topics) for source in stage.sources), reentry)


def own_rows(frame: DataFrame, number: int, source: Source, only: frozenset[str] | None) -> PlanRows:
    """The rows of one source, of all that were read together."""
    names = columns_of(source).names
    own = frame.where(F.col(f"{OWN}{number}").isNotNull())
    fields = frozenset(names)
    rows = PlanRows(own.select(*(f"{OWN}{number}.`{name}`" for name in names), RECORD), None, fields, fields, only)
    return mark_unmet(rows, source.name, source.expectations)


def select_columns(frame: DataFrame, names: Sequence[str], has_unmet: bool) -> DataFrame:
    return frame.select(*(F.col(f"`{name}`") for name in names), RECORD, *([UNMET] if has_unmet else []))


def operations(frame: DataFrame) -> set[str]:
    """The kinds of operations of which the frame is made."""
    return {node.nodeName() for node in _nodes(frame._jdf.queryExecution().analyzed())}


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


def nothing(rows: Iterable[Any]) -> None:
    """Goes through the rows of a partition, so that the work behind them is done."""
    for _ in rows:
        pass


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


def _struct(frame: DataFrame, names: tuple[str, ...]) -> DataFrame:
    # A struct must have a field; what has none is not looked at.
    columns = [F.col(f"`{name}`") for name in names] or [F.lit(True).alias("_")]
    unmet = F.col(UNMET) if UNMET in frame.columns else F.lit(None).cast("string").alias(UNMET)
    return frame.select(F.struct(*columns).alias(OWN), RECORD, unmet)


def _topic(reentry: str | None) -> Column:
    topic = F.col(f"{RECORD}.topic")
    if reentry is None:
        return topic
    said = F.filter(f"{RECORD}.headers", lambda header: header["key"] == INPUT_TOPIC)
    first = F.try_element_at(said, F.lit(-1))["value"].cast("string")
    return F.when(topic == reentry, first).otherwise(topic)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


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
