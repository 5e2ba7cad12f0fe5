"""CSV lines to records, as RFC 4180 has them: fields divided by commas, quotes doubled inside quotes.

Nearly all lines are plain: no quotes, nothing that JSON would have to escape, values that surely fit. One pattern
finds that out and takes them apart, and a prepared text takes the parts. All other lines are read field by field.
`CsvColumn` knows which texts fit a column and how they are written in JSON; numbers keep their digits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import orjson

from towpath.errors import BadValue
from towpath.flow.documents.reader import exact
from towpath.flow.documents.types import (
    BooleanType,
    ColumnType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    Misfit,
    SchemaField,
    Struct,
    TextType,
    TimestampType,
)
from towpath.gateway.lines.lines import LineReading, LineRefusal, Stamp, too_long

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
# Texts that surely fit, by which nearly all lines are known to be good. What else may fit is looked at one by one.
_PLAIN_TEXT = r'[^,"\\\x00-\x1f]*+'
_PLAIN_DAY = r"[12][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
_PLAIN_TIME = _PLAIN_DAY + r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_WHOLE_DIGITS = {8: 2, 16: 4, 32: 9, 64: 18}
_NUMBERS = (IntegerType, DoubleType, DecimalType)
SCALARS = (TextType, BooleanType, *_NUMBERS, DateType, TimestampType)

_FIELD = re.compile(r'(?:"([^"]*+(?:""[^"]*+)*+)"(?=,|\Z)|(?!")([^,]*+))(,?)')
# Quotes around fields that would not need them.
_NEEDLESS = re.compile(r'(?:"[^",]*+"|[^",]*+)(?:,(?:"[^",]*+"|[^",]*+))*+\r?')
_NOT_BLANK = r"(?!\r?\Z)"
_SHOWN_COLUMNS = 10


class CsvLines:
    """Reads the lines of a sender whose columns are known."""

    def __init__(
        self, columns: Sequence[str], schema: Struct | None, stamp: Stamp, key: str | None, most_bytes: int
    ) -> None:
        self._columns = columns_of(columns, schema, stamp.reserved, key)
        self._stamp = stamp
        self._key = None if key is None else columns.index(key)
        self._most_bytes = most_bytes
        self._plain = re.compile(_NOT_BLANK + ",".join(column.pattern for column in self._columns) + r"\r?")
        self._may_be_null = [place for place, column in enumerate(self._columns) if not column.is_text]
        self._names = [f",{orjson.dumps(column.name).decode()}:" for column in self._columns]
        self._rest = "".join(
            name.replace("%", "%%") + ('"%s"' if column.is_quoted else "%s")
            for name, column in zip(self._names, self._columns, strict=True)
        )

    def read(self, lines: Sequence[bytes], numbers: Sequence[int]) -> LineReading:
        values: list[bytes | None] = []
        keys: list[bytes | None] = []
        refusals: dict[int, LineRefusal] = {}
        plain, whole, key, most = self._plain.fullmatch, self._whole(), self._key, self._most_bytes
        for row, line in enumerate(lines):
            try:
                text = line.decode() if len(line) <= most else ""
            except UnicodeDecodeError:
                text = ""
            if '"' in text and _NEEDLESS.fullmatch(text):
                text = text.replace('"', "")
            found = plain(text)
            if found is None:
                value, its_key = self._closely(line, numbers[row], row, refusals)
                values.append(value)
                keys.append(its_key)
                continue
            texts = found.groups()
            if whole is None or ("" in texts and not all(texts[place] for place in self._may_be_null)):
                values.append(self._joined(texts, numbers[row]))
            else:
                values.append((whole % texts).encode())
            keys.append(None if key is None else texts[key].encode() or None)
        return LineReading(values, keys, refusals)

    def _whole(self) -> str | None:
        """The text of a record with places for its fields; None where the line's number stands in it."""
        if self._stamp.line_field:
            return None
        return self._stamp.beginning(0).replace("%", "%%") + self._rest + "}"

    def _joined(self, texts: Sequence[str], number: int) -> bytes:
        """The record of texts that fit."""
        parts = [self._stamp.beginning(number)]
        for name, column, text in zip(self._names, self._columns, texts, strict=True):
            if not text and not column.is_text:
                parts += (name, "null")
            else:
                parts += (name, f'"{text}"' if column.is_quoted else text)
        return ("".join(parts) + "}").encode()

    def _closely(
        self, line: bytes, number: int, row: int, refusals: dict[int, LineRefusal]
    ) -> tuple[bytes | None, bytes | None]:
        """Value and key of a line that is not plain; or why it is refused."""
        if len(line) > self._most_bytes:
            refusals[row] = too_long(self._most_bytes)
        elif line.strip(b"\r"):
            try:
                return self._record(line, number)
            except _Refused as refused:
                refusals[row] = refused.refusal
        return None, None

    def _record(self, line: bytes, number: int) -> tuple[bytes, bytes | None]:
        texts = fields_of(_decoded(line.removesuffix(b"\r")))
        if len(texts) != len(self._columns):
            raise _Refused("wrong number of fields", f"{len(texts)} fields; there are {len(self._columns)} columns")
        parts = [self._stamp.beginning(number)]
        for name, column, text in zip(self._names, self._columns, texts, strict=True):
            try:
                parts += (name, column.token(text))
            except Misfit as misfit:
                raise _Refused("schema", str(misfit)) from None
        key = None if self._key is None else texts[self._key].encode() or None
        return ("".join(parts) + "}").encode(), key


class _Refused(ValueError):
    """The line is not a record."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.refusal = LineRefusal(rule, message)


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise _Refused("not UTF-8", f"not UTF-8: {error.reason} at byte {error.start}") from None


def fields_of(line: str) -> list[str]:
    """The fields of one record, without their quotes."""
    fields: list[str] = []
    at, is_open = 0, True
    while is_open:
        found = _FIELD.match(line, at)
        if found is None:
            raise _Refused("wrong quotes", f"field {len(fields) + 1} begins with a quote that does not end it")
        quoted, bare, comma = found.groups()
        fields.append(bare if quoted is None else quoted.replace('""', '"'))
        at, is_open = found.end(), bool(comma)
    return fields


def columns_of(
    names: Sequence[str], schema: Struct | None, reserved: Sequence[str] = (), key: str | None = None
) -> list[CsvColumn]:
    """The columns of a file by those names; `BadValue` if no line of it could be a record."""
    declared: Mapping[str, SchemaField] = {field.name: field for field in schema.fields} if schema else {}
    _check_names(names, reserved)
    missing = [name for name, field in declared.items() if not field.nullable and name not in names]
    if key is not None and key not in names:
        missing.append(key)
    if missing:
        shown = ", ".join(names[:_SHOWN_COLUMNS])
        raise BadValue(f"the columns {shown} lack {', '.join(dict.fromkeys(missing))}, which this input needs")
    nested = [name for name in names if name in declared and not isinstance(declared[name].kind, SCALARS)]
    if nested:
        raise BadValue(f"column {nested[0]} is {declared[nested[0]].kind.ddl}, which CSV cannot hold; send JSON lines")
    return [
        CsvColumn(declared[name]) if name in declared else CsvColumn(SchemaField(name, TextType())) for name in names
    ]


def _check_names(names: Sequence[str], reserved: Sequence[str]) -> None:
    if not names or not all(names):
        raise BadValue("a CSV sender says the names of its columns, and none of them is empty")
    repeated = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if repeated is not None:
        raise BadValue(f"column {repeated!r} is named twice")
    taken = [name for name in names if name in reserved]
    if taken:
        raise BadValue(f"no column can be called {taken[0]!r}: the gateway puts a field of that name into each record")


class CsvColumn:
    """A column of the file, with its field of the schema; a column that no schema names holds strings."""

    def __init__(self, field: SchemaField) -> None:
        self.field = field
        self.name = field.name
        self.is_text = isinstance(field.kind, TextType)
        self.is_quoted = isinstance(field.kind, TextType | DateType | TimestampType)  # strings in JSON
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
        if isinstance(kind, BooleanType):
            kind.fit({"true": True, "false": False}.get(text, text), self.name)
            return text
        kind.fit(text, self.name)
        return orjson.dumps(text).decode()

    def _number(self, kind: ColumnType, text: str) -> object:
        if not _NUMBER.fullmatch(text):
            raise kind.misfit(text, self.name)
        try:
            return exact(text.encode())
        except ValueError as error:
            raise Misfit(self.name, kind.ddl, str(error)) from None


def _pattern(kind: ColumnType) -> str:
    match kind:
        case BooleanType():
            return "true|false"
        case IntegerType(bits=bits):
            return f"-?(?:0|[1-9][0-9]{{0,{_WHOLE_DIGITS[bits] - 1}}})"
        case DoubleType():
            return r"-?(?:0|[1-9][0-9]{0,7})(?:\.[0-9]{1,7})?"
        case DecimalType(precision=precision, scale=scale):
            return _decimal(precision - scale, scale)
        case DateType():
            return _PLAIN_DAY
        case TimestampType(has_zone=has_zone):
            return _PLAIN_TIME + ("Z" if has_zone else "")
        case _:
            return _PLAIN_TEXT


def _decimal(before: int, after: int) -> str:
    whole = f"(?:0|[1-9][0-9]{{0,{before - 1}}})" if before else "0"
    return f"-?{whole}" + (rf"(?:\.[0-9]{{1,{after}}})?" if after else "")
