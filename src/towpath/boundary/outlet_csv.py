"""JSON lines as CSV (RFC 4180, with `\\n` at the end of a line). Pure.

A null is an empty cell, an empty text is `""`; numbers are written as they stand in the line; lists and objects are
JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

_NEEDS_QUOTES = re.compile(r'[",\r\n]|^\s|\s$')


class _Number(str):
    """A number as it stands in the text."""

    __slots__ = ()


def columns_of(line: bytes, without: Iterable[str] = ()) -> tuple[str, ...]:
    """The fields of a line, in their order."""
    left_out = frozenset(without)
    return tuple(name for name in _parsed(line) if name not in left_out)


def csv_header(columns: Sequence[str]) -> bytes:
    return _row(columns)


def csv_lines(lines: bytes, columns: Sequence[str]) -> bytes:
    """The same rows; a field that a row does not have is an empty cell."""
    parsed = (_parsed(line) for line in lines.splitlines() if line)
    return b"".join(_row([document.get(name) for name in columns]) for document in parsed)


def _parsed(line: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(line, parse_float=_Number, parse_int=_Number)
    return document


def _row(cells: Sequence[Any]) -> bytes:
    # One empty cell alone would be an empty line, which readers pass over.
    text = '""' if len(cells) == 1 and cells[0] is None else ",".join(map(_cell, cells))
    return text.encode(errors="replace") + b"\n"


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case _Number():
            return value
        case str():
            return _quoted(value)
    return _quoted(_json(value))


def _quoted(text: str) -> str:
    if text and not _NEEDS_QUOTES.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def _json(value: Any) -> str:
    match value:
        case _Number():
            return str(value)
        case dict():
            return (
                "{"
                + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{_json(part)}" for name, part in value.items())
                + "}"
            )
        case list():
            return "[" + ",".join(map(_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
