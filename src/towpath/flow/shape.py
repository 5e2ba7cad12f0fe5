"""The shape of a stage as JSON: what is kept in its row and compared with the next run's. Pure.

What a function does is not in it: whoever changes that says so with another `Flow(version=…)`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson

from towpath.flow.nodes import Node, Output, Source
from towpath.flow.text.schema import Schema

if TYPE_CHECKING:
    from towpath.flow.graph import Stage


def shape_of(stage: Stage) -> dict[str, Any]:
    """What is read, by which steps, into what, and what is promised about it."""
    return {
        "topics": list(stage.topics),
        "called": stage.called,
        "delivery": str(stage.delivery),
        "steps": [_step(node) for node in stage.nodes],
        "outputs": [_output(output) for output in stage.outputs],
    }


def _step(node: Node) -> dict[str, Any]:
    takes = getattr(node, "takes", None)
    said = {
        "name": node.name,
        "kind": type(node).__name__.lower(),
        "inputs": [above.name for above in node.inputs],
        "expectations": dict(getattr(node, "expectations", ())),
        "takes": "" if takes is None else str(takes),
        "deterministic": getattr(node, "deterministic", None),
    }
    return {**said, **_source(node)} if isinstance(node, Source) else said


def _source(source: Source) -> dict[str, Any]:
    schema = source.schema
    return {
        "topics": list(source.topics),
        "duplicates": source.duplicates,
        "dedupe": _dedupe(source),
        "stateful": None if source.stateful is None else str(source.stateful),
        "join": None if source.join is None else str(source.join),
        "extra": None if schema is None else schema.extra,
        "columns": None if schema is None else _columns(schema),
        "rules": None if schema is None or schema.rules is None else _digest(schema.rules.schema),
    }


def _dedupe(source: Source) -> Any:
    if source.dedupes:
        return {topic: str(dedupe) for topic, dedupe in source.dedupes.items()}
    return None if source.dedupe is None else str(source.dedupe)


def _columns(schema: Schema) -> dict[str, str]:
    return {field.name: field.kind.ddl + ("" if field.nullable else " not null") for field in schema.struct.fields}


def _output(output: Output) -> dict[str, Any]:
    sink = output.sink
    return {
        "name": output.name,
        "called": output.called,
        "input": output.input.name,
        "sink": str(sink),
        "id": None if sink.id is None else sink.id.text,
    }


def _digest(value: object) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
