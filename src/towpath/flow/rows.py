"""What a node gives while a plan is put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from towpath.flow.nodes import Expectation, Source
from towpath.flow.worker.preparing import HIDDEN, Columns
from towpath.flow.worker.reading import UNMET, ReadRecords
from towpath.flow.worker.records import RECORD


@dataclass(frozen=True, slots=True)
class Rows:
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


def columns_of(source: Source) -> pa.Schema:
    """What the records of a source become; none without a schema."""
    return pa.schema([]) if source.schema is None else source.schema.arrow(nullable=True)


def expecting(rows: Rows, step: str, rules: Sequence[Expectation]) -> Rows:
    """The rows with a column that names the expectations that they do not meet, if there are any rules."""
    if not rules:
        return rows
    names = [F.when(~F.coalesce(F.expr(rule.expression), F.lit(False)), F.lit(rule.name)) for rule in rules]
    unmet = F.nullif(F.concat_ws(", ", *names), F.lit(""))
    return replace(rows, frame=rows.frame.withColumn(UNMET, unmet), unmet=step)
