"""Changing single fields of a JSON body and nothing else of its text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from towpath.errors import BadEdit
from towpath.flow.text.numbers import exact
from towpath.flow.text.writing import Unwritable, write


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
