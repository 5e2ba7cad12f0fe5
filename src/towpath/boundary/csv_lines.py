"""CSV lines to records, as RFC 4180 has them: fields divided by commas, quotes doubled inside quotes.

Nearly all lines are plain: no quotes, nothing that JSON would have to escape, values that surely fit. One pattern finds
that out and takes them apart, and a ready text takes the parts. All other lines are looked at field by field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import orjson

from towpath.boundary.csv_column import SCALARS, CsvColumn, text_column
from towpath.boundary.reading import Reading
from towpath.boundary.refusal import Refusal, too_long
from towpath.boundary.stamp import Stamp
from towpath.errors import BadValue
from towpath.flow.text.kind import Misfit
from towpath.flow.text.nested import Field, Struct

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

    def read(self, lines: Sequence[bytes], numbers: Sequence[int]) -> Reading:
        values: list[bytes | None] = []
        keys: list[bytes | None] = []
        refusals: dict[int, Refusal] = {}
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
        return Reading(values, keys, refusals)

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
        self, line: bytes, number: int, row: int, refusals: dict[int, Refusal]
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
    """The line is no record."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.refusal = Refusal(rule, message)


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
    declared: Mapping[str, Field] = {field.name: field for field in schema.fields} if schema else {}
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
    return [CsvColumn(declared[name]) if name in declared else text_column(name) for name in names]


def _check_names(names: Sequence[str], reserved: Sequence[str]) -> None:
    if not names or not all(names):
        raise BadValue("a CSV sender says the names of its columns, and none of them is empty")
    repeated = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if repeated is not None:
        raise BadValue(f"column {repeated!r} is named twice")
    taken = [name for name in names if name in reserved]
    if taken:
        raise BadValue(f"no column can be called {taken[0]!r}: the gateway puts a field of that name into each record")
