"""The types of columns: how JSON values become an Arrow array, and which values do not fit.

Scalars (text, boolean, numbers), nested types (arrays, objects with declared fields, objects with any names), and days
and times, which are strings in ISO 8601 as RFC 3339 narrows it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from itertools import accumulate, chain
from types import NoneType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from towpath.flow.failures import bounded

FOUND_CHARACTERS = 60

_TEXT: frozenset[type] = frozenset({str, NoneType})
_BOOLEAN: frozenset[type] = frozenset({bool, NoneType})
_INTEGER: frozenset[type] = frozenset({int, NoneType})
_NUMBER: frozenset[type] = frozenset({int, float, NoneType})
_DECIMAL: frozenset[type] = frozenset({int, Decimal, NoneType})
_ARRAY = frozenset({list, NoneType})
_OBJECT = frozenset({dict, NoneType})
_LARGEST_LONG_DIGITS = 19
_MAX_PRECISION = 38
_EXACT = Context(prec=2 * _MAX_PRECISION)

_DAY = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"T\d{2}:\d{2}:\d{2}(?:\.\d{1,6}0*)?"
_ZONE = r"(?:Z|[+-]\d{2}:\d{2})"

# The years that Python knows: a value beyond them could not be handed to a step.
_FIRST = datetime(1, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


@dataclass(frozen=True)
class SchemaField:
    """A field of an object: its name, its kind, and whether it may be missing or null."""

    name: str
    kind: ColumnType
    nullable: bool = True

    def arrow(self) -> pa.Field:
        return pa.field(self.name, self.kind.arrow, self.nullable)

    def fit(self, value: Any, path: str) -> Any:
        if value is not None:
            return self.kind.fit(value, path)
        if self.nullable:
            return None
        raise Misfit(path, f"{self.kind.ddl} not null", "nothing")


class Misfit(ValueError):
    """A value does not fit into its column. The text names field, expected type and what was found."""

    def __init__(self, path: str, expected: str, found: str) -> None:
        super().__init__(bounded(f"field {path}: expected {expected}, found {found}"))


class ColumnType(ABC):
    """A type of column. Types are values: equal if they are declared alike.

    `array` is the fast way: a whole column at once, and None as soon as anything in it needs a closer look. `fit` is
    the exact way: one value, or `Misfit`. Arrow by itself is too lenient for either (it reads 1.5 as the integer 1,
    "abc" as a list of three strings, 1 as a day of 1970), so types are looked at before it is asked.
    """

    @property
    @abstractmethod
    def ddl(self) -> str:
        """How the type is written in a schema."""

    @property
    @abstractmethod
    def arrow(self) -> pa.DataType:
        """The type in Arrow, as Spark wants it."""

    @abstractmethod
    def array(self, values: list[Any]) -> pa.Array | None:
        """All values as an array; None if one does not fit, or fits only on a closer look."""

    @abstractmethod
    def fit(self, value: Any, path: str) -> Any:
        """A value that is not null as Arrow takes it without changing it, or `Misfit`."""

    def outside(self, value: Any, path: str) -> Iterator[str]:
        """The paths of fields in a value that are not declared."""
        return iter(())

    def misfit(self, value: Any, path: str, why: str = "") -> Misfit:
        return Misfit(path, self.ddl, _described(value) + why)


@dataclass(frozen=True)
class TextType(ColumnType):
    """Strings, and nothing that could be printed as one."""

    ddl = "string"
    arrow = pa.string()

    def array(self, values: list[Any]) -> pa.Array | None:
        return _plain_array(values, _TEXT, self.arrow)

    def fit(self, value: Any, path: str) -> str:
        if isinstance(value, str):
            return value
        raise self.misfit(value, path)


@dataclass(frozen=True)
class BooleanType(ColumnType):
    """`true` and `false`, not 0 and 1."""

    ddl = "boolean"
    arrow = pa.bool_()

    def array(self, values: list[Any]) -> pa.Array | None:
        return _plain_array(values, _BOOLEAN, self.arrow)

    def fit(self, value: Any, path: str) -> bool:
        if isinstance(value, bool):
            return value
        raise self.misfit(value, path)


@dataclass(frozen=True)
class IntegerType(ColumnType):
    """Whole numbers of so many bits; `1.0` and `1e3` are whole, too."""

    bits: int

    @property
    def ddl(self) -> str:
        return {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}[self.bits]

    @property
    def arrow(self) -> pa.DataType:
        return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[self.bits]

    def array(self, values: list[Any]) -> pa.Array | None:
        return _plain_array(values, _INTEGER, self.arrow)

    def fit(self, value: Any, path: str) -> int:
        whole = self._whole(value, path)
        if -(1 << self.bits - 1) <= whole < 1 << self.bits - 1:
            return whole
        raise self.misfit(value, path, ", which is out of its range")

    def _whole(self, value: Any, path: str) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        # The size is looked at first: 1e999999999 as an int would fill the memory.
        if (
            isinstance(value, Decimal)
            and value.adjusted() < _LARGEST_LONG_DIGITS
            and value == value.to_integral_value()
        ):
            return int(value)
        raise self.misfit(value, path)


@dataclass(frozen=True)
class DoubleType(ColumnType):
    """Numbers that a double holds: those that it prints as they were written, and integers that it is exactly."""

    ddl = "double"
    arrow = pa.float64()

    def array(self, values: list[Any]) -> pa.Array | None:
        return _plain_array(values, _NUMBER, self.arrow)

    def fit(self, value: Any, path: str) -> float:
        if isinstance(value, float):
            return value
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise self.misfit(value, path)
        try:
            near = float(value)
        except OverflowError:
            raise self.misfit(value, path, ", which is out of its range") from None
        if near == value or Decimal(repr(near)) == value:
            return near
        raise self.misfit(value, path, ", which it cannot hold exactly")


@dataclass(frozen=True)
class DecimalType(ColumnType):
    """Decimal numbers of so many digits, so many of them after the point; none is rounded."""

    precision: int
    scale: int

    @property
    def ddl(self) -> str:
        return f"decimal({self.precision},{self.scale})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)

    def array(self, values: list[Any]) -> pa.Array | None:
        # Arrow crashes at the Decimal 1e-999999999 and reads 3e-133 as 0: nothing with an exponent goes there.
        if not _NUMBER.issuperset(map(type, values)):
            return None
        if "e" in "".join([repr(value) for value in values if type(value) is float]):
            return None
        printed = [Decimal(repr(value)) if type(value) is float else value for value in values]
        return _plain_array(printed, _DECIMAL, self.arrow)

    def fit(self, value: Any, path: str) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise self.misfit(value, path)
        # A float prints as the number that was written: see `reader.number`.
        written = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        try:
            shifted = written.quantize(Decimal(1).scaleb(-self.scale), context=_EXACT)
        except InvalidOperation:
            raise self.misfit(value, path, ", which has too many digits") from None
        if shifted != written or (shifted and shifted.adjusted() >= self.precision - self.scale):
            raise self.misfit(value, path, ", which has too many digits")
        return shifted


@dataclass(frozen=True)
class Struct(ColumnType):
    """An object with declared fields. Others in it have no column; they stay in the text."""

    fields: tuple[SchemaField, ...]

    @property
    def ddl(self) -> str:
        return f"struct<{','.join(f'{field.name}:{field.kind.ddl}' for field in self.fields)}>"

    @property
    def arrow(self) -> pa.DataType:
        return pa.struct([field.arrow() for field in self.fields])

    def array(self, values: list[Any]) -> pa.Array | None:
        if not _OBJECT.issuperset(map(type, values)):
            return None
        nulls = [value is None for value in values]
        arrays = []
        for field in self.fields:
            array = field.kind.array([None if value is None else value.get(field.name) for value in values])
            if array is None or (not field.nullable and array.null_count > sum(nulls)):
                return None
            arrays.append(array)
        return pa.StructArray.from_arrays(arrays, type=self.arrow, mask=pa.array(nulls, pa.bool_()))

    def fit(self, value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.misfit(value, path)
        return {field.name: field.fit(value.get(field.name), f"{path}.{field.name}") for field in self.fields}

    def outside(self, value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict):
            return
        known = {field.name: field.kind for field in self.fields}
        for name, inner in value.items():
            below = f"{path}.{name}" if path else name
            if name in known:
                yield from known[name].outside(inner, below)
            else:
                yield below


@dataclass(frozen=True)
class Array(ColumnType):
    """An array of values of one kind."""

    element: SchemaField

    @property
    def ddl(self) -> str:
        return f"array<{self.element.kind.ddl}>"

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(self.element.arrow())

    def array(self, values: list[Any]) -> pa.Array | None:
        if not _ARRAY.issuperset(map(type, values)):
            return None
        inner = self.element.kind.array(list(chain.from_iterable(value for value in values if value)))
        if inner is None or (inner.null_count and not self.element.nullable):
            return None
        return pa.ListArray.from_arrays(_offsets(values), inner, type=self.arrow, mask=_mask(values))

    def fit(self, value: Any, path: str) -> list[Any]:
        if not isinstance(value, list):
            raise self.misfit(value, path)
        return [self.element.fit(inner, f"{path}[{place}]") for place, inner in enumerate(value)]

    def outside(self, value: Any, path: str) -> Iterator[str]:
        if isinstance(value, list):
            for place, inner in enumerate(value):
                yield from self.element.kind.outside(inner, f"{path}[{place}]")


@dataclass(frozen=True)
class Map(ColumnType):
    """An object with names that are not known beforehand, and values of one kind."""

    value: SchemaField

    @property
    def ddl(self) -> str:
        return f"map<string,{self.value.kind.ddl}>"

    @property
    def arrow(self) -> pa.DataType:
        return pa.map_(pa.field("key", pa.string(), nullable=False), self.value.arrow())

    def array(self, values: list[Any]) -> pa.Array | None:
        if not _OBJECT.issuperset(map(type, values)):
            return None
        there = [value for value in values if value]
        inner = self.value.kind.array(list(chain.from_iterable(value.values() for value in there)))
        if inner is None or (inner.null_count and not self.value.nullable):
            return None
        names = pa.array(list(chain.from_iterable(there)), pa.string())
        return pa.MapArray.from_arrays(_offsets(values), names, inner, type=self.arrow, mask=_mask(values))

    def fit(self, value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.misfit(value, path)
        return {name: self.value.fit(inner, f"{path}.{name}") for name, inner in value.items()}

    def outside(self, value: Any, path: str) -> Iterator[str]:
        if isinstance(value, dict):
            for name, inner in value.items():
                yield from self.value.kind.outside(inner, f"{path}.{name}")


@dataclass(frozen=True)
class DateType(ColumnType):
    """`2024-05-06`."""

    ddl = "date"
    arrow = pa.date32()

    def array(self, values: list[Any]) -> pa.Array | None:
        return _parsed(values, rf"^{_DAY}$", self.arrow, _FIRST.date(), _LAST.date())

    def fit(self, value: Any, path: str) -> date:
        if isinstance(value, str) and re.fullmatch(_DAY, value, re.ASCII):
            try:
                return date.fromisoformat(value)
            except ValueError:
                raise self.misfit(value, path, ", which is no day") from None
        raise self.misfit(value, path, "; a day is written 2024-05-06")


@dataclass(frozen=True)
class TimestampType(ColumnType):
    """`2024-05-06T07:08:09.123456Z`, or with an offset such as `+02:00`. A time without either is refused.

    It is the other way round for times without a zone (`timestamp_ntz`): there a zone is refused.
    """

    has_zone: bool = True

    @property
    def ddl(self) -> str:
        return "timestamp" if self.has_zone else "timestamp_ntz"

    @property
    def arrow(self) -> pa.DataType:
        return pa.timestamp("us", "UTC" if self.has_zone else None)

    @property
    def _pattern(self) -> str:
        return _DAY + _CLOCK + (_ZONE if self.has_zone else "")

    def array(self, values: list[Any]) -> pa.Array | None:
        zone = UTC if self.has_zone else None
        return _parsed(
            values, f"^{self._pattern}$", self.arrow, _FIRST.replace(tzinfo=zone), _LAST.replace(tzinfo=zone)
        )

    def fit(self, value: Any, path: str) -> datetime:
        if isinstance(value, str) and re.fullmatch(self._pattern, value, re.ASCII):
            try:
                return self._read(value)
            except (ValueError, OverflowError):
                raise self.misfit(value, path, ", which is no time") from None
        zone = "Z" if self.has_zone else ""
        finest = "; a time is written 2024-05-06T07:08:09{zone}, with six digits after the point at most"
        raise self.misfit(value, path, finest.format(zone=zone))

    def _read(self, value: str) -> datetime:
        time = datetime.fromisoformat(re.sub(r"(\.\d{6})0+", r"\1", value))
        return time.astimezone(UTC) if self.has_zone else time


def _plain_array(values: list[Any], allowed: frozenset[type], arrow: pa.DataType) -> pa.Array | None:
    """The values as an array if all are of the allowed types and Arrow takes them."""
    if not allowed.issuperset(map(type, values)):
        return None
    try:
        return pa.array(values, arrow)
    except (pa.ArrowException, OverflowError):
        return None


def _parsed(values: list[Any], pattern: str, arrow: pa.DataType, first: date, last: date) -> pa.Array | None:
    """Strings of a pattern as Arrow reads them, if all are of it and within the years that Python knows."""
    texts = TextType().array(values)
    if texts is None or pc.all(pc.match_substring_regex(texts, pattern)).as_py() is False:
        return None
    try:
        parsed = texts.cast(arrow)
    except pa.ArrowInvalid:
        return None
    bounds = pc.min_max(parsed)
    lowest, highest = pa.scalar(first, arrow), pa.scalar(last, arrow)
    if pc.or_(pc.less(bounds["min"], lowest), pc.greater(bounds["max"], highest)).as_py():
        return None
    return parsed


def _offsets(values: list[Any]) -> pa.Array:
    return pa.array(accumulate((len(value) if value else 0 for value in values), initial=0), pa.int32())


def _mask(values: list[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def _described(value: Any) -> str:
    """A value as it is named in a message: what it is in JSON, and its beginning."""
    if value is None:
        return "null"
    if value is True or value is False:
        return f"boolean {str(value).lower()}"
    if isinstance(value, str):
        return f'string "{bounded(value, FOUND_CHARACTERS)}"'
    if isinstance(value, int | float | Decimal):
        return f"number {_printed(value)}"
    return "an object" if isinstance(value, dict) else "an array" if isinstance(value, list) else type(value).__name__


def _printed(value: int | float | Decimal) -> str:
    return bounded(str(Decimal(value) if isinstance(value, int) else value), FOUND_CHARACTERS)
