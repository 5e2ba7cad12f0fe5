"""Columns of arrays, objects with declared fields, and objects with any names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, chain
from types import NoneType
from typing import Any

import pyarrow as pa

from towpath.flow.text.kind import Kind, Misfit

_ARRAY = frozenset({list, NoneType})
_OBJECT = frozenset({dict, NoneType})


@dataclass(frozen=True)
class Field:
    """A field of an object: its name, its kind, and whether it may be missing or null."""

    name: str
    kind: Kind
    nullable: bool = True

    def arrow(self) -> pa.Field:
        return pa.field(self.name, self.kind.arrow, self.nullable)

    def spark(self) -> dict[str, Any]:
        return {"name": self.name, "type": self.kind.spark, "nullable": self.nullable, "metadata": {}}

    def fit(self, value: Any, path: str) -> Any:
        if value is not None:
            return self.kind.fit(value, path)
        if self.nullable:
            return None
        raise Misfit(path, f"{self.kind.ddl} not null", "nothing")


@dataclass(frozen=True)
class Struct(Kind):
    """An object with declared fields. Others in it have no column; they stay in the text."""

    fields: tuple[Field, ...]

    @property
    def ddl(self) -> str:
        return f"struct<{','.join(f'{field.name}:{field.kind.ddl}' for field in self.fields)}>"

    @property
    def arrow(self) -> pa.DataType:
        return pa.struct([field.arrow() for field in self.fields])

    @property
    def spark(self) -> dict[str, Any]:
        return {"type": "struct", "fields": [field.spark() for field in self.fields]}

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
class Array(Kind):
    """An array of values of one kind."""

    element: Field

    @property
    def ddl(self) -> str:
        return f"array<{self.element.kind.ddl}>"

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(self.element.arrow())

    @property
    def spark(self) -> dict[str, Any]:
        return {"type": "array", "elementType": self.element.kind.spark, "containsNull": self.element.nullable}

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
class Map(Kind):
    """An object with names that are not known beforehand, and values of one kind."""

    value: Field

    @property
    def ddl(self) -> str:
        return f"map<string,{self.value.kind.ddl}>"

    @property
    def arrow(self) -> pa.DataType:
        return pa.map_(pa.field("key", pa.string(), nullable=False), self.value.arrow())

    @property
    def spark(self) -> dict[str, Any]:
        kinds = {"keyType": "string", "valueType": self.value.kind.spark}
        return {"type": "map", **kinds, "valueContainsNull": self.value.nullable}

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


def _offsets(values: list[Any]) -> pa.Array:
    return pa.array(accumulate((len(value) if value else 0 for value in values), initial=0), pa.int32())


def _mask(values: list[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())
