"""Bodies of edited records: checked against the flow, compared with the original, and changed field by field.

A body must be strict JSON and fit what is known of the flow's schema. The row of a stage keeps the columns of its
schema and how it treats other fields; what a JSON Schema demands beyond that is only in the flow's code, so checking
it takes the flow. Two bodies are compared by field where both are JSON, otherwise by line. Needs no Spark.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import orjson

from towpath.desk.masks import read_shallow
from towpath.errors import BadEdit, BadFlow
from towpath.flow.documents.reader import Duplicates, Unreadable, exact, read_document
from towpath.flow.documents.schema import Extra, Schema
from towpath.flow.documents.writer import Unwritable, write
from towpath.flow.graph.nodes import Source

MOST_CHANGES = 200
MOST_LINES = 2_000
KEPT_CHANGES = 50
KEPT_CHARACTERS = 200
_MISSING = object()


@dataclass(frozen=True, slots=True)
class StageInput:
    """What a stage accepts from one topic."""

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


def taken_by_topology(topology: Mapping[str, Any], topic: str) -> StageInput:
    """As the row of a stage has it."""
    for step in topology.get("steps", ()):
        if step.get("kind") == "source" and topic in step.get("topics", ()):
            return _taken(step)
    return StageInput()


def taken_by_flow(nodes: list[Any], topic: str) -> StageInput:
    """As the code of the flow has it, with all its rules."""
    for node in nodes:
        if isinstance(node, Source) and topic in node.topics:
            is_of_records = node.join is None
            return StageInput(node.duplicates, node.schema if is_of_records else None, is_from_code=True)
    return StageInput()


def _taken(step: Mapping[str, Any]) -> StageInput:
    duplicates = cast(Duplicates, step.get("duplicates") or "refuse")
    columns = step.get("columns")
    if not columns or step.get("join"):  # a join's schema is about what it puts together, not about a record
        return StageInput(duplicates)
    ddl = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in columns.items())
    try:
        schema = Schema.of(ddl, extra=cast(Extra, step.get("extra") or "keep"))
    except BadFlow:
        return StageInput(duplicates)  # written by a version of Towpath that knew other types
    return StageInput(duplicates, schema, step.get("rules") is not None)


def check_body(body: bytes, taken: StageInput, max_bytes: int) -> None:
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


class BodyDifference(NamedTuple):
    """One difference. `before` or `after` is None when there was nothing."""

    path: str
    before: str | None
    after: str | None


def diff(before: bytes, after: bytes) -> list[BodyDifference]:
    """The first two hundred differences, in the order of the documents."""
    old, new = _document(before), _document(after)
    changes = _lines(before, after) if old is _MISSING or new is _MISSING else _values("", old, new)
    return [change for _, change in zip(range(MOST_CHANGES), changes, strict=False)]


def kept(changes: list[BodyDifference]) -> list[BodyDifference]:
    """The first of them, and of each the beginning: what is remembered when the bodies are gone."""
    return [BodyDifference(path, _cut(before), _cut(after)) for path, before, after in changes[:KEPT_CHANGES]]


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= KEPT_CHARACTERS else f"{text[:KEPT_CHARACTERS]}…"


def _document(body: bytes) -> Any:
    document = read_shallow(body)
    return _MISSING if document is None and body.strip() != b"null" else document


def _values(path: str, before: Any, after: Any) -> Iterator[BodyDifference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            inner = f"{path}.{name}" if path else name
            yield from _values(inner, before.get(name, _MISSING), after.get(name, _MISSING))
    elif isinstance(before, list) and isinstance(after, list):
        for at in range(max(len(before), len(after))):
            yield from _values(f"{path}[{at}]", _at(before, at), _at(after, at))
    elif _text(before) != _text(after):
        yield BodyDifference(path or "the record", _text(before), _text(after))


def _at(values: list[Any], at: int) -> Any:
    return values[at] if at < len(values) else _MISSING


def _text(value: Any) -> str | None:
    return None if value is _MISSING else orjson.dumps(value).decode()


def _lines(before: bytes, after: bytes) -> Iterator[BodyDifference]:
    old, new = (body.decode("utf-8", "replace").splitlines()[:MOST_LINES] for body in (before, after))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, start, stop, new_start, new_stop in matcher.get_opcodes():
        if kind != "equal":
            left, right = old[start:stop], new[new_start:new_stop]
            yield BodyDifference(
                f"line {start + 1}", "\n".join(left) if left else None, "\n".join(right) if right else None
            )


def with_fields(body: bytes, changes: Sequence[tuple[str, str]]) -> bytes:
    """The body with fields set to JSON values, by their paths; objects on the way are made. Raises `BadEdit`."""
    try:
        document = exact(body)
    except (ValueError, RecursionError) as error:
        raise BadEdit(f"the body is no JSON, so that it has no fields: {error}; give a whole new body") from error
    for path, text in changes:
        _set(document, path, _value(path, text))
    try:
        return bytes(write(document))
    except Unwritable as error:
        raise BadEdit(f"the changed body cannot be written: {error}") from error


def _value(path: str, text: str) -> Any:
    try:
        orjson.loads(text)
        return exact(text.encode())
    except (ValueError, orjson.JSONDecodeError):
        raise BadEdit(f"{path}: {text!r} is not JSON; text stands in quotes, as '\"Bonn\"'") from None


def _set(document: Any, path: str, value: Any) -> None:
    *above, last = path.split(".")
    at = document
    for name in above:
        at = _inner(at, name, path)
    if isinstance(at, dict):
        at[last] = value
    elif isinstance(at, list) and last.isdecimal() and int(last) < len(at):
        at[int(last)] = value
    else:
        raise BadEdit(f"{path}: there is no place for {last!r}")


def _inner(at: Any, name: str, path: str) -> Any:
    if isinstance(at, list) and name.isdecimal() and int(name) < len(at):
        return at[int(name)]
    if isinstance(at, dict):
        return at.setdefault(name, {})
    raise BadEdit(f"{path}: {name!r} is not in an object or list")
