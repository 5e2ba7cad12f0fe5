"""Several DataFrames made one: the branches of a stage before they are loaded, and alternatives before a step.

All rows of an input, of whatever branch, must meet in one task: it is delivered as a whole, or fails as a whole. Each
branch keeps its columns in a struct of its own, so that nothing is converted and none is taken for another's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from towpath.errors import BadFlow
from towpath.flow.graph import Stage
from towpath.flow.nodes import Source
from towpath.flow.rows import Rows, columns_of, expecting
from towpath.flow.worker.branching import BRANCH, OWN, ReadSources
from towpath.flow.worker.reading import UNMET
from towpath.flow.worker.records import RECORD
from towpath.flow.worker.reentry import Reentry

_AT = "_at"  # where in its branch a row stands: their order must not depend on that of tasks


def packed(branches: Sequence[tuple[Rows, tuple[str, ...]]], buckets: int) -> DataFrame:
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
    input = [F.col(f"{RECORD}.{name}") for name in ("topic", "partition", "offset")]
    return union.repartition(buckets, *input).sortWithinPartitions(*input, BRANCH, _AT).drop(_AT)


def _struct(frame: DataFrame, names: tuple[str, ...]) -> DataFrame:
    # A struct must have a field; what has none is not looked at.
    columns = [F.col(f"`{name}`") for name in names] or [F.lit(True).alias("_")]
    unmet = F.col(UNMET) if UNMET in frame.columns else F.lit(None).cast("string").alias(UNMET)
    return frame.select(F.struct(*columns).alias(OWN), RECORD, unmet)


def united(step: str, inputs: Sequence[tuple[str, Rows]]) -> Rows:
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
    return Rows(frame, None, frozenset(kept), fields, only)


def reader_of(stage: Stage, rows: Sequence[Rows], reentry: Reentry | None) -> ReadSources:
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


def own_rows(frame: DataFrame, number: int, source: Source, only: frozenset[str] | None) -> Rows:
    """The rows of one source, of all that were read together."""
    names = columns_of(source).names
    own = frame.where(F.col(f"{OWN}{number}").isNotNull())
    fields = frozenset(names)
    rows = Rows(own.select(*(f"{OWN}{number}.`{name}`" for name in names), RECORD), None, fields, fields, only)
    return expecting(rows, source.name, source.expectations)
