"""One column of a CSV file: which texts fit it, and how they are written in JSON. Numbers keep their digits."""

from __future__ import annotations

import re

import orjson

from towpath.flow.text.kind import Kind, Misfit
from towpath.flow.text.nested import Field
from towpath.flow.text.numbers import exact
from towpath.flow.text.scalars import Boolean, Double, Exact, Integer, Text
from towpath.flow.text.times import Day, Time

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")

# Texts that surely fit, by which nearly all lines are known to be good. What else may fit is looked at one by one.
_PLAIN_TEXT = r'[^,"\\\x00-\x1f]*+'
_PLAIN_DAY = r"[12][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
_PLAIN_TIME = _PLAIN_DAY + r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_WHOLE_DIGITS = {8: 2, 16: 4, 32: 9, 64: 18}
_NUMBERS = (Integer, Double, Exact)
SCALARS = (Text, Boolean, *_NUMBERS, Day, Time)


class CsvColumn:
    """A column of the file, with its field of the schema; a column that no schema names holds strings."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.name = field.name
        self.is_text = isinstance(field.kind, Text)
        self.is_quoted = isinstance(field.kind, Text | Day | Time)  # whether its values are strings in JSON
        self._fits = re.compile(_pattern(field.kind)).fullmatch

    @property
    def pattern(self) -> str:
        """What surely fits, as a group of a pattern; empty is null in all but texts."""
        inner = _pattern(self.field.kind)
        return f"({inner}|)" if self.field.nullable and not self.is_text else f"({inner})"

    def token(self, text: str) -> str:
        """The text of one field as JSON; `Misfit` if it does not fit."""
        kind = self.field.kind
        if self.is_text:
            return orjson.dumps(text).decode()
        if self._fits(text):
            return f'"{text}"' if self.is_quoted else text
        if not text:
            self.field.fit(None, self.name)
            return "null"
        if isinstance(kind, _NUMBERS):
            kind.fit(self._number(kind, text), self.name)
            return text
        if isinstance(kind, Boolean):
            kind.fit({"true": True, "false": False}.get(text, text), self.name)
            return text
        kind.fit(text, self.name)
        return orjson.dumps(text).decode()

    def _number(self, kind: Kind, text: str) -> object:
        if not _NUMBER.fullmatch(text):
            raise kind.misfit(text, self.name)
        try:
            return exact(text.encode())
        except ValueError as error:
            raise Misfit(self.name, kind.ddl, str(error)) from None


def text_column(name: str) -> CsvColumn:
    return CsvColumn(Field(name, Text()))


def _pattern(kind: Kind) -> str:
    match kind:
        case Boolean():
            return "true|false"
        case Integer(bits=bits):
            return f"-?(?:0|[1-9][0-9]{{0,{_WHOLE_DIGITS[bits] - 1}}})"
        case Double():
            return r"-?(?:0|[1-9][0-9]{0,7})(?:\.[0-9]{1,7})?"
        case Exact(precision=precision, scale=scale):
            return _decimal(precision - scale, scale)
        case Day():
            return _PLAIN_DAY
        case Time(has_zone=has_zone):
            return _PLAIN_TIME + ("Z" if has_zone else "")
        case _:
            return _PLAIN_TEXT


def _decimal(before: int, after: int) -> str:
    whole = f"(?:0|[1-9][0-9]{{0,{before - 1}}})" if before else "0"
    return f"-?{whole}" + (rf"(?:\.[0-9]{{1,{after}}})?" if after else "")
