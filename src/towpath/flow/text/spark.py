"""Schemas from and to Spark's own types, by way of the JSON that Spark writes them in. Needs no session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from towpath.errors import BadFlow
from towpath.flow.text.ddl import SIMPLE, decimal, unusable
from towpath.flow.text.kind import Kind
from towpath.flow.text.nested import Array, Field, Map, Struct

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def from_spark(declared: StructType) -> Struct:
    """The fields of a StructType; `BadFlow` where it has a type that JSON has no value for."""
    return _struct(declared.jsonValue())


def to_spark(struct: Struct) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(struct.spark)


def _struct(written: Mapping[str, Any]) -> Struct:
    return Struct(tuple(Field(each["name"], _kind(each["type"]), each["nullable"]) for each in written["fields"]))


def _kind(written: str | Mapping[str, Any]) -> Kind:
    if isinstance(written, str):
        if match := _DECIMAL.fullmatch(written):
            return decimal(int(match[1]), int(match[2]))
        if written not in SIMPLE:
            raise unusable(written.partition("(")[0])
        return SIMPLE[written]
    if written["type"] == "struct":
        return _struct(written)
    if written["type"] == "array":
        return Array(Field("element", _kind(written["elementType"]), written["containsNull"]))
    if written["type"] == "map":
        if written["keyType"] != "string":
            raise BadFlow(f"a map's names are strings in JSON, not {written['keyType']}")
        return Map(Field("value", _kind(written["valueType"]), written["valueContainsNull"]))
    raise unusable(str(written["type"]))
