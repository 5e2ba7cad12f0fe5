"""Parts of a record by which it is known again: a header, the key, a field of its document.

Workers take them from whole columns (`parts`), the audit from single records, with the same answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from towpath.errors import BadFlow
from towpath.log.record import Record

_NUMBER = re.compile(rb"-?[0-9]{1,18}")
_PATH = re.compile(r"\$(?:\.[^.\[\]*]+)+")


@dataclass(frozen=True, slots=True)
class Header:
    """The value of the last header of a name."""

    name: str

    def __str__(self) -> str:
        return f"header({self.name!r})"


@dataclass(frozen=True, slots=True)
class Key:
    """The key of the record."""

    def __str__(self) -> str:
        return "key()"


@dataclass(frozen=True, slots=True)
class Field:
    """A text, a whole number, true or false in the JSON document."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"field('{'.'.join(('$', *self.names))}')"


RecordPart: TypeAlias = Header | Key | Field


def header(name: str) -> Header:
    """The value of a header; of several with this name, the last."""
    return Header(name)


def key() -> Key:
    """The key of the record."""
    return Key()


def field(path: str) -> Field:
    """A field of the document: `field("sender")`, or, inside another, `field("$.meta.sender")`."""
    full = path if path.startswith("$") else f"$.{path}"
    if not _PATH.fullmatch(full):
        raise BadFlow(f"field({path!r}) is not a name, nor a path of names like $.meta.sender")
    return Field(tuple(full.split(".")[1:]))


def part_of(record: Record, part: RecordPart) -> bytes | None:
    """The same of a single record."""
    match part:
        case Key():
            return record.key
        case Header(name):
            values = [value for key, value in record.headers if key == name]
            return values[-1] if values else None
        case Field(names):
            return field_of(document_of(record.value), names)


def whole_number(text: bytes | None) -> int | None:
    """None for what is no whole number that fits 60 bits."""
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None


def document_of(value: bytes | None) -> Any:
    """None for what is no JSON: that it is none, reading it will tell."""
    try:
        return None if value is None else orjson.loads(value)
    except orjson.JSONDecodeError:
        return None


def field_of(document: Any, names: Sequence[str]) -> bytes | None:
    for name in names:
        if not isinstance(document, Mapping) or name not in document:
            return None
        document = document[name]
    match document:
        case str():
            return document.encode()
        case bool() | int():
            return orjson.dumps(document)
    return None
