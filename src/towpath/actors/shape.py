"""What people see of an actor: its states with a template of each, and the moves between them."""

from __future__ import annotations

from typing import Any

from towpath.actors.definition import Definition, StateKind
from towpath.actors.moves_in_code import CodeMove, moves_in_code

DEEPEST = 6


def shape_of(definition: Definition) -> dict[str, Any]:
    """As JSON: kept in the database, so that a console shows it without having the code."""
    return {
        "first": definition.first.name,
        "states": [
            {
                "name": kind.name,
                "about": _about(kind),
                "resume": kind.resume,
                "is_terminal": kind.is_terminal,
                "template": template(kind),
            }
            for kind in definition.states.values()
        ],
        "moves": [list(move) for move in moves_of(definition)],
    }


def moves_of(definition: Definition) -> list[CodeMove]:
    return moves_in_code(type(definition.actor), set(definition.states))


def template(kind: StateKind) -> Any:
    """JSON that a person can fill in and start the state with."""
    schema = kind.adapter.json_schema()
    return _sample(schema, schema.get("$defs", {}), DEEPEST)


def _about(kind: StateKind) -> str:
    doc = kind.cls.__doc__ or ""
    made_by_dataclass = doc.startswith(f"{kind.name}(")
    return "" if made_by_dataclass else " ".join(doc.split("\n\n")[0].split())


def _sample(schema: dict[str, Any], known: dict[str, Any], depth: int) -> Any:
    if "default" in schema:
        return schema["default"]
    if "$ref" in schema and depth:
        return _sample(known[schema["$ref"].rpartition("/")[2]], known, depth - 1)
    for several in ("anyOf", "oneOf", "allOf"):
        if schema.get(several):
            return _sample(schema[several][0], known, depth)
    if schema.get("enum"):
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    match schema.get("type"):
        case "object":
            return {name: _sample(each, known, depth - 1) for name, each in schema.get("properties", {}).items()}
        case "array":
            return []
        case "integer" | "number":
            return 0
        case "boolean":
            return False
        case "string":
            return f"<{schema.get('format', schema.get('title', 'text').lower())}>"
    return None
