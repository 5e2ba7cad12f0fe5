"""Whether a changed body could go into its flow: strict JSON, and what is known of the flow's schema. Needs no Spark.

The row of a stage keeps the columns of its schema and what is done about other fields. What a JSON Schema says beyond
that is only in the flow's code: who wants that checked as well gives the flow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from towpath.errors import BadEdit, BadFlow
from towpath.flow.nodes import Source
from towpath.flow.text.reading import Duplicates, Unreadable, read_document
from towpath.flow.text.schema import Extra, Schema


@dataclass(frozen=True, slots=True)
class Taken:
    """What a stage takes from one topic."""

    duplicates: Duplicates = "refuse"
    schema: Schema | None = None
    has_rules: bool = False  # the flow's code has a JSON Schema, which is not known here
    is_from_code: bool = False  # the flow was given, with all that its schema says

    @property
    def says(self) -> str:
        """How far a body was checked, for people."""
        if self.schema is None:
            return "it is JSON; nothing else is known of what the flow takes"
        if self.has_rules:
            return "it fits the columns of the flow; its JSON Schema is in the flow's code (--flow checks that)"
        if self.is_from_code:
            return "it fits the flow's schema; expectations and steps were not tried (desk rehearse tries them)"
        return "it fits the flow's schema"


def taken_by_topology(topology: Mapping[str, Any], topic: str) -> Taken:
    """As the row of a stage has it."""
    for step in topology.get("steps", ()):
        if step.get("kind") == "source" and topic in step.get("topics", ()):
            return _taken(step)
    return Taken()


def taken_by_flow(nodes: list[Any], topic: str) -> Taken:
    """As the code of the flow has it, with all its rules."""
    for node in nodes:
        if isinstance(node, Source) and topic in node.topics:
            is_of_records = node.join is None
            return Taken(node.duplicates, node.schema if is_of_records else None, is_from_code=True)
    return Taken()


def check_body(body: bytes, taken: Taken, max_bytes: int) -> None:
    """Raises `BadEdit` with what is wrong, and where."""
    try:
        document = read_document(body, max_bytes=max_bytes, duplicates=taken.duplicates)
    except Unreadable as error:
        raise BadEdit(f"the changed body cannot go into the flow: {error}") from error
    if taken.schema is None:
        return
    _, failures = taken.schema.columns([document])
    if failures:
        raise BadEdit(f"the changed body does not fit the flow's schema: {failures[0].message}")


def _taken(step: Mapping[str, Any]) -> Taken:
    duplicates = cast(Duplicates, step.get("duplicates") or "refuse")
    columns = step.get("columns")
    if not columns or step.get("join"):  # a join's schema is about what it puts together, not about a record
        return Taken(duplicates)
    ddl = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in columns.items())
    try:
        schema = Schema.of(ddl, extra=cast(Extra, step.get("extra") or "keep"))
    except BadFlow:
        return Taken(duplicates)  # written by a version of Towpath that knew other types
    return Taken(duplicates, schema, step.get("rules") is not None)
