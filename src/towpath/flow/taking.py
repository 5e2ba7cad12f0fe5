"""What a DataFrame step takes: its rows, by topic and by type."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from towpath.errors import BadFlow
from towpath.flow.nodes import Each, Fork, Step
from towpath.flow.reentry_record import INPUT_TOPIC
from towpath.flow.worker.reading import UNMET
from towpath.flow.worker.records import RECORD


def taken(frame: DataFrame, step: Step | Fork, reentry: str | None = None) -> DataFrame:
    """The rows that the step takes. What has come back is of the topic in which it was read for the first time."""
    takes = step.takes
    if takes.topics is not None:
        frame = frame.where(_topic(reentry).isin(sorted(takes.topics)))
    if takes.types is not None:
        check_types(frame, step)
        frame = frame.where(F.col(_quoted(takes.type_field)).isin(sorted(takes.types)))
    return frame


def _topic(reentry: str | None) -> Column:
    topic = F.col(f"{RECORD}.topic")
    if reentry is None:
        return topic
    said = F.filter(f"{RECORD}.headers", lambda header: header["key"] == INPUT_TOPIC)
    first = F.try_element_at(said, F.lit(-1))["value"].cast("string")
    return F.when(topic == reentry, first).otherwise(topic)


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


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
