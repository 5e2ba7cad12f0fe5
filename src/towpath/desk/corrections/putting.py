"""A new value put into the text of a record: all else stays as it was, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping

from towpath.desk.corrections.fields import Scalar
from towpath.flow.text.members import members
from towpath.flow.text.splicing import splice


def with_values(text: bytes, values: Mapping[str, Scalar]) -> bytes:
    """The text of an object with the values at these paths changed or added."""
    for path, value in values.items():
        text = _with_value(text, path.split("."), value)
    return text


def _with_value(text: bytes, path: list[str], value: Scalar) -> bytes:
    name, *rest = path
    if not rest:
        return splice(text, {name: value})
    # Of a name that stands twice the last is read.
    found = [each for each in members(text) if each[0] == name]
    if not found or text[found[-1][2] : found[-1][2] + 1] != b"{":
        return splice(text, {name: _nested(rest, value)})
    _, _, start, end = found[-1]
    return text[:start] + _with_value(text[start:end], rest, value) + text[end:]


def _nested(path: list[str], value: Scalar) -> object:
    for name in reversed(path):
        value = {name: value}  # type: ignore[assignment]
    return value
