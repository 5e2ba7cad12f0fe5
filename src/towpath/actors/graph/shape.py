"""The shape of an actor: its states with a template of each, and the moves between them.

The moves come from the source of `transition`; nothing is run. What stands behind `return` in each `case` is found:
states, also inside `Sleep` and `Wait`, in both halves of a conditional, in a variable, and in methods of the class that
are called there.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from towpath.actors.actor import Actor, Sleep, Wait
from towpath.actors.definition import Definition, StateKind

_LABELS = {
    (Sleep.__name__, 0): "after a sleep",
    (Sleep.__name__, "then"): "after a sleep",
    (Wait.__name__, 1): "answered",
    (Wait.__name__, "then"): "answered",
    (Wait.__name__, "otherwise"): "timed out",
    (Wait.__name__, 3): "timed out",
}
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
        "moves": [list(move) for move in moves_in_code(type(definition.actor), set(definition.states))],
    }


def template(kind: StateKind) -> Any:
    """JSON that a person can fill in and start the state with."""
    schema = kind.adapter.json_schema()
    return _sample(schema, schema.get("$defs", {}), DEEPEST)


def moves_in_code(cls: type[Actor], states: set[str]) -> list[CodeMove]:
    """All moves that are found, in the order of the code; none when there is no source."""
    home = next(each for each in cls.__mro__ if "transition" in vars(each))  # it may derive from another actor
    methods = _methods_of(home)
    found = dict.fromkeys(
        CodeMove(source, target, label)
        for node in ast.walk(methods.get("transition", ast.Pass()))
        if isinstance(node, ast.match_case)
        for source in _matched(node.pattern)
        if source in states
        for target, label in _returned(node.body, states, methods, frozenset({"transition"}))
    )
    return list(found)


class CodeMove(NamedTuple):
    """From one state to another, and what lies between."""

    source: str
    target: str
    label: str = ""


@lru_cache(maxsize=256)
def _methods_of(home: type[Actor]) -> dict[str, ast.FunctionDef]:
    """By name, those of the class and of what is defined in it; none when there is no source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(home)))
    except (OSError, TypeError, SyntaxError):
        return {}
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def _matched(pattern: ast.pattern) -> Iterator[str]:
    match pattern:
        case ast.MatchClass(cls=cls):
            yield _name(cls)
        case ast.MatchOr(patterns=patterns):
            for each in patterns:
                yield from _matched(each)
        case ast.MatchAs(pattern=inner) if inner is not None:
            yield from _matched(inner)


def _returned(
    body: list[ast.stmt], states: set[str], methods: dict[str, ast.FunctionDef], inside: frozenset[str]
) -> Iterator[tuple[str, str]]:
    assigned = {
        target.id: node.value
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def within(node: ast.expr, label: str, depth: int) -> Iterator[tuple[str, str]]:
        match node:
            case ast.Name(id=name) if name in assigned and depth:
                yield from within(assigned[name], label, depth - 1)
            case ast.IfExp(body=yes, orelse=no):
                yield from within(yes, label, depth)
                yield from within(no, label, depth)
            case ast.Call(func=func) if _name(func) in states:
                yield _name(func), label
            case ast.Call(func=func) if _name(func) in (Sleep.__name__, Wait.__name__):
                for place, value in _arguments(node):
                    if (_name(func), place) in _LABELS:
                        yield from within(value, _LABELS[_name(func), place], depth)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=method)):
                if method in methods and method not in inside:
                    yield from _returned(methods[method].body, states, methods, inside | {method})

    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Return) and node.value is not None:
                yield from within(node.value, "", 3)


def _arguments(call: ast.Call) -> Iterator[tuple[int | str, ast.expr]]:
    yield from enumerate(call.args)
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword.value


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


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
