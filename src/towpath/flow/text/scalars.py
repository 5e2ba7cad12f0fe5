"""Columns of texts, booleans and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from types import NoneType
from typing import Any

import pyarrow as pa

from towpath.flow.text.kind import Kind, plain_array

_TEXT: frozenset[type] = frozenset({str, NoneType})
_BOOLEAN: frozenset[type] = frozenset({bool, NoneType})
_INTEGER: frozenset[type] = frozenset({int, NoneType})
_NUMBER: frozenset[type] = frozenset({int, float, NoneType})
_DECIMAL: frozenset[type] = frozenset({int, Decimal, NoneType})
_LARGEST_LONG_DIGITS = 19
_MAX_PRECISION = 38
_EXACT = Context(prec=2 * _MAX_PRECISION)


@dataclass(frozen=True)
class Text(Kind):
    """Strings, and nothing that could be printed as one."""

    ddl = "string"
    arrow = pa.string()
    spark = "string"

    def array(self, values: list[Any]) -> pa.Array | None:
        return plain_array(values, _TEXT, self.arrow)

    def fit(self, value: Any, path: str) -> str:
        if isinstance(value, str):
            return value
        raise self.misfit(value, path)


@dataclass(frozen=True)
class Boolean(Kind):
    """`true` and `false`, not 0 and 1."""

    ddl = "boolean"
    arrow = pa.bool_()
    spark = "boolean"

    def array(self, values: list[Any]) -> pa.Array | None:
        return plain_array(values, _BOOLEAN, self.arrow)

    def fit(self, value: Any, path: str) -> bool:
        if isinstance(value, bool):
            return value
        raise self.misfit(value, path)


@dataclass(frozen=True)
class Integer(Kind):
    """Whole numbers of so many bits; `1.0` and `1e3` are whole, too."""

    bits: int

    @property
    def ddl(self) -> str:
        return {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}[self.bits]

    @property
    def arrow(self) -> pa.DataType:
        return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[self.bits]

    @property
    def spark(self) -> str:
        return {8: "byte", 16: "short", 32: "integer", 64: "long"}[self.bits]

    def array(self, values: list[Any]) -> pa.Array | None:
        return plain_array(values, _INTEGER, self.arrow)

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
class Double(Kind):
    """Numbers that a double holds: those that it prints as they were written, and integers that it is exactly."""

    ddl = "double"
    arrow = pa.float64()
    spark = "double"

    def array(self, values: list[Any]) -> pa.Array | None:
        return plain_array(values, _NUMBER, self.arrow)

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
class Exact(Kind):
    """Decimal numbers of so many digits, so many of them after the point; none is rounded."""

    precision: int
    scale: int

    @property
    def ddl(self) -> str:
        return f"decimal({self.precision},{self.scale})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)

    @property
    def spark(self) -> str:
        return self.ddl

    def array(self, values: list[Any]) -> pa.Array | None:
        # Arrow crashes at the Decimal 1e-999999999 and reads 3e-133 as 0: nothing with an exponent goes there.
        if not _NUMBER.issuperset(map(type, values)):
            return None
        if "e" in "".join([repr(value) for value in values if type(value) is float]):
            return None
        printed = [Decimal(repr(value)) if type(value) is float else value for value in values]
        return plain_array(printed, _DECIMAL, self.arrow)

    def fit(self, value: Any, path: str) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise self.misfit(value, path)
        # A float prints as the number that was written: see `numbers`.
        written = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        try:
            shifted = written.quantize(Decimal(1).scaleb(-self.scale), context=_EXACT)
        except InvalidOperation:
            raise self.misfit(value, path, ", which has too many digits") from None
        if shifted != written or (shifted and shifted.adjusted() >= self.precision - self.scale):
            raise self.misfit(value, path, ", which has too many digits")
        return shifted
