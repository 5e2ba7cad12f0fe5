"""Schemas written as text: `name string not null, at bigint, tags array<string>`. Needs no Spark."""

from __future__ import annotations

import re

from towpath.errors import BadFlow
from towpath.flow.text.kind import Kind
from towpath.flow.text.nested import Array, Field, Map, Struct
from towpath.flow.text.scalars import Boolean, Double, Exact, Integer, Text
from towpath.flow.text.times import Day, Time

_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*')|(\w+)|([<>(),:]))")

SIMPLE: dict[str, Kind] = {
    "string": Text(),
    "boolean": Boolean(),
    "byte": Integer(8),
    "tinyint": Integer(8),
    "short": Integer(16),
    "smallint": Integer(16),
    "int": Integer(32),
    "integer": Integer(32),
    "long": Integer(64),
    "bigint": Integer(64),
    "double": Double(),
    "date": Day(),
    "timestamp": Time(),
    "timestamp_ltz": Time(),
    "timestamp_ntz": Time(has_zone=False),
}
UNUSABLE = {
    "float": "write double: a float keeps only seven digits",
    "real": "write double: a float keeps only seven digits",
    "binary": "JSON has no bytes; write string",
    "varchar": "write string",
    "char": "write string",
    "variant": "leave the field out of the schema; it stays in the text",
}
_DECIMALS = ("decimal", "dec", "numeric")


def parsed(text: str) -> Struct:
    """The fields of a schema; `BadFlow` if it cannot be read."""
    reader = _Reader(text)
    fields = reader.fields(end=None)
    return Struct(fields)


def decimal(precision: int, scale: int) -> Exact:
    if not 0 <= scale <= precision <= 38 or not precision:
        raise BadFlow(f"decimal({precision},{scale}): at most 38 digits, and no more after the point than altogether")
    return Exact(precision, scale)


def unusable(name: str) -> BadFlow:
    hint = UNUSABLE.get(name, f"the types are {', '.join(SIMPLE)}, decimal(p,s), array<>, map<string,>, struct<>")
    return BadFlow(f"a schema cannot have the type {name!r}: {hint}")


class _Reader:
    """Goes through the words of a schema from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._words: list[tuple[str, bool]] = []  # the word, and whether it was quoted
        while self._text[self._at :].strip():
            token = _TOKEN.match(text, self._at)
            if not token:
                raise self._bad(f"{text[self._at : self._at + 20].strip()!r} is not understood")
            quoted, comment, word, mark = token.groups()
            self._words.append((quoted.replace("``", "`"), True) if quoted else (comment or word or mark, False))
            self._at = token.end()
        self._next = 0

    def fields(self, end: str | None) -> tuple[Field, ...]:
        fields = [self._field()]
        while self._took(","):
            fields.append(self._field())
        if end is None and self._next < len(self._words):
            raise self._bad(f"{self._words[self._next][0]!r} is not expected")
        if end is not None:
            self._must(end)
        return tuple(fields)

    def _field(self) -> Field:
        name = self._word("the name of a field")
        self._took(":")
        kind = self._kind()
        nullable = not self._took("not")
        if not nullable:
            self._must("null")
        if self._took("comment"):
            self._word("a comment")
        return Field(name, kind, nullable)

    def _kind(self) -> Kind:
        name = self._word("a type").lower()
        if name == "array":
            self._must("<")
            element = Field("element", self._kind())
            self._must(">")
            return Array(element)
        if name == "map":
            return self._map()
        if name == "struct":
            self._must("<")
            return Struct(self.fields(">"))
        if name in _DECIMALS:
            return self._decimal()
        if name not in SIMPLE:
            raise unusable(name)
        return SIMPLE[name]

    def _map(self) -> Map:
        self._must("<")
        self._must("string")
        self._must(",")
        value = Field("value", self._kind())
        self._must(">")
        return Map(value)

    def _decimal(self) -> Exact:
        if not self._took("("):
            return decimal(10, 0)
        precision = self._number()
        scale = self._number() if self._took(",") else 0
        self._must(")")
        return decimal(precision, scale)

    def _number(self) -> int:
        word = self._word("a number")
        if not word.isdecimal():
            raise self._bad(f"a number is expected, not {word!r}")
        return int(word)

    def _word(self, what: str) -> str:
        if self._next == len(self._words):
            raise self._bad(f"it ends where {what} is expected")
        word, quoted = self._words[self._next]
        if not quoted and word in "<>(),:":
            raise self._bad(f"{what} is expected, not {word!r}")
        self._next += 1
        return word

    def _took(self, word: str) -> bool:
        if self._next == len(self._words):
            return False
        found, quoted = self._words[self._next]
        is_it = found.lower() == word and not quoted
        self._next += is_it
        return is_it

    def _must(self, word: str) -> None:
        if not self._took(word):
            found = self._words[self._next][0] if self._next < len(self._words) else "the end"
            raise self._bad(f"{word!r} is expected, not {found!r}")

    def _bad(self, why: str) -> BadFlow:
        return BadFlow(f"the schema {self._text!r} cannot be read: {why}")
