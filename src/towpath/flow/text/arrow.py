"""Arrow columns to values and to ready JSON texts, many rows at a time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types


def is_arrow(column: object) -> bool:
    return isinstance(column, pa.Array | pa.ChunkedArray)


def python_values(column: Any) -> list[Any]:
    """The values of a column, maps as dicts."""
    values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    return values


def ready_texts(column: Any) -> list[bytes] | None:
    """The JSON texts of a column whose type Arrow prints as JSON has it; None for other types."""
    kind = column.type
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        printed = column.cast(pa.string())
    elif types.is_date(kind):
        printed = _quoted(column.cast(pa.string()))
    elif types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC"):
        printed = _quoted(_iso(column))
    else:
        return None
    texts: list[bytes] = pc.fill_null(printed, "null").cast(pa.binary()).to_pylist()
    return texts


def same_rows(before: Any, after: Any) -> list[bool]:
    """For each row of two columns whether the value is the same; null is the same as null."""
    if before.type != after.type:
        return [False] * len(after)
    if types.is_float64(before.type):
        before, after = before.view(pa.int64()), after.view(pa.int64())  # tells -0.0 from 0.0
    if types.is_nested(before.type) or types.is_floating(before.type):
        return [repr(one) == repr(other) for one, other in zip(before.to_pylist(), after.to_pylist(), strict=True)]
    both_null = pc.and_(pc.is_null(before), pc.is_null(after))
    same: list[bool] = pc.or_(both_null, pc.fill_null(pc.equal(before, after), False)).to_pylist()
    return same


def _iso(column: Any) -> Any:
    """`2024-05-06T07:08:09.123456Z`; a fraction of zero is left out, as Python does."""
    printed = pc.replace_substring(column.cast(pa.string()), " ", "T")
    return pc.replace_substring(printed, ".000000", "")


def _quoted(printed: Any) -> Any:
    return pc.binary_join_element_wise('"', printed, '"', "")
