"""What differs between two bodies: by field where both are JSON, else by line. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from towpath.desk.shallow import read_shallow

MOST_CHANGES = 200
MOST_LINES = 2_000
KEPT_CHANGES = 50
KEPT_CHARACTERS = 200
_MISSING = object()


class Change(NamedTuple):
    """One difference. `before` or `after` is None when there was nothing."""

    path: str
    before: str | None
    after: str | None


def diff(before: bytes, after: bytes) -> list[Change]:
    """The first two hundred differences, in the order of the documents."""
    old, new = _document(before), _document(after)
    changes = _lines(before, after) if old is _MISSING or new is _MISSING else _values("", old, new)
    return [change for _, change in zip(range(MOST_CHANGES), changes, strict=False)]


def kept(changes: list[Change]) -> list[Change]:
    """The first of them, and of each the beginning: what is remembered when the bodies are gone."""
    return [Change(path, _cut(before), _cut(after)) for path, before, after in changes[:KEPT_CHANGES]]


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= KEPT_CHARACTERS else f"{text[:KEPT_CHARACTERS]}…"


def _document(body: bytes) -> Any:
    document = read_shallow(body)
    return _MISSING if document is None and body.strip() != b"null" else document


def _values(path: str, before: Any, after: Any) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            inner = f"{path}.{name}" if path else name
            yield from _values(inner, before.get(name, _MISSING), after.get(name, _MISSING))
    elif isinstance(before, list) and isinstance(after, list):
        for at in range(max(len(before), len(after))):
            yield from _values(f"{path}[{at}]", _at(before, at), _at(after, at))
    elif _text(before) != _text(after):
        yield Change(path or "the record", _text(before), _text(after))


def _at(values: list[Any], at: int) -> Any:
    return values[at] if at < len(values) else _MISSING


def _text(value: Any) -> str | None:
    return None if value is _MISSING else orjson.dumps(value).decode()


def _lines(before: bytes, after: bytes) -> Iterator[Change]:
    old, new = (body.decode("utf-8", "replace").splitlines()[:MOST_LINES] for body in (before, after))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, start, stop, new_start, new_stop in matcher.get_opcodes():
        if kind != "equal":
            left, right = old[start:stop], new[new_start:new_stop]
            yield Change(f"line {start + 1}", "\n".join(left) if left else None, "\n".join(right) if right else None)
