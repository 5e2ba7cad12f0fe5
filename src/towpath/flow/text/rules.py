"""JSON Schema: documents are validated by it, and columns are made of what it says plainly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import orjson

from towpath.errors import BadFlow
from towpath.flow.failure import bounded
from towpath.flow.text.kind import Kind
from towpath.flow.text.nested import Array, Field, Struct
from towpath.flow.text.scalars import Boolean, Double, Integer, Text

_SCALARS: dict[str, Kind] = {"string": Text(), "integer": Integer(64), "number": Double(), "boolean": Boolean()}


class Rules:
    """A JSON Schema that documents have to meet. It travels to Spark's workers as its text."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = dict(schema)
        try:
            self._validator = jsonschema_rs.validator_for(self.schema)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise BadFlow(f"the JSON Schema cannot be used: {bounded(str(error), 300)}") from error

    @property
    def names(self) -> frozenset[str]:
        """The fields that are declared, with a plain type or not."""
        return frozenset(self.schema.get("properties", ()))

    def broken(self, document: dict[str, Any]) -> str | None:
        """What a document breaks first, with the path; None if it breaks nothing."""
        if self._validator.is_valid(document):
            return None
        error = next(iter(self._validator.iter_errors(document)))
        path = ".".join(map(str, error.instance_path)) or "the record"
        return bounded(f"{path}: {error.message}")

    def columns(self) -> Struct:
        """The fields whose type is said plainly. All others have no column; they stay in the text."""
        return Struct(_fields(self.schema))

    def __reduce__(self) -> tuple[type[Rules], tuple[dict[str, Any]]]:
        return Rules, (self.schema,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and orjson.dumps(other.schema) == orjson.dumps(self.schema)

    def __hash__(self) -> int:
        return hash(orjson.dumps(self.schema))


def _fields(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    found = ((name, _kind(said), _takes_null(said)) for name, said in properties.items())
    return tuple(Field(name, kind, null or name not in required) for name, kind, null in found if kind is not None)


def _kind(schema: Any) -> Kind | None:
    name = _type(schema)
    if name == "array":
        items = schema.get("items")
        element = _kind(items)
        return (
            None if element is None or "prefixItems" in schema else Array(Field("element", element, _takes_null(items)))
        )
    if name == "object":
        fields = _fields(schema)
        return Struct(fields) if fields else None
    return _SCALARS.get(name) if name else None


def _type(schema: Any) -> str | None:
    """The one type besides null that a schema names; None if it names several, or says it in another way."""
    if not isinstance(schema, Mapping):
        return None
    said = schema.get("type")
    names = [name for name in ([said] if isinstance(said, str) else said or ()) if name != "null"]
    return names[0] if len(names) == 1 else None


def _takes_null(schema: Any) -> bool:
    said = schema.get("type") if isinstance(schema, Mapping) else None
    return not isinstance(said, str)
