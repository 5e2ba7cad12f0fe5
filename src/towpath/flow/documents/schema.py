"""Schemas: the fields that the records of a topic must have, and how documents become typed Arrow columns.

A schema is declared in one of three ways:

- as text: `name string not null, at bigint, tags array<string>`;
- as a Spark StructType, read by way of the JSON that Spark writes it in (needs no session);
- as a JSON Schema: documents are validated by it, and columns are made of the fields whose type it states plainly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import jsonschema_rs
import orjson
import pyarrow as pa

from towpath.errors import BadFlow
from towpath.flow.documents.types import (
    Array,
    BooleanType,
    ColumnType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    Map,
    Misfit,
    SchemaField,
    Struct,
    TextType,
    TimestampType,
)
from towpath.flow.failures import ErrorCode, RecordFailure, bounded

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_JSON_SCALARS: dict[str, ColumnType] = {
    "string": TextType(),
    "integer": IntegerType(64),
    "number": DoubleType(),
    "boolean": BooleanType(),
}

Extra = Literal["keep", "drop", "refuse"]
Documents = Sequence[dict[str, Any] | None]

_SHOWN_FIELDS = 5
_EMPTY: dict[str, Any] = {}

_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*')|(\w+)|([<>(),:]))")

_SIMPLE: dict[str, ColumnType] = {
    "string": TextType(),
    "boolean": BooleanType(),
    "byte": IntegerType(8),
    "tinyint": IntegerType(8),
    "short": IntegerType(16),
    "smallint": IntegerType(16),
    "int": IntegerType(32),
    "integer": IntegerType(32),
    "long": IntegerType(64),
    "bigint": IntegerType(64),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ltz": TimestampType(),
    "timestamp_ntz": TimestampType(has_zone=False),
}
_UNUSABLE = {
    "float": "write double: a float keeps only seven digits",
    "real": "write double: a float keeps only seven digits",
    "binary": "JSON has no bytes; write string",
    "varchar": "write string",
    "char": "write string",
    "variant": "leave the field out of the schema; it stays in the text",
}
_DECIMALS = ("decimal", "dec", "numeric")
_SPARK_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


@dataclass(frozen=True)
class Schema:
    """Fields with types, and what is done about fields outside of it. Make one with `Schema.of`."""

    struct: Struct
    extra: Extra = "keep"
    rules: JsonSchemaRules | None = None

    def __post_init__(self) -> None:
        if self.extra not in ("keep", "drop", "refuse"):
            raise BadFlow(f"extra={self.extra!r}: it is keep, drop or refuse")
        _refuse_repeated(self.struct)

    @classmethod
    def of(cls, declared: str | StructType | Mapping[str, Any], *, extra: Extra = "keep") -> Schema:
        """From a text (`name string not null, at bigint`), a Spark StructType, or a JSON Schema as a dict."""
        if isinstance(declared, str):
            return cls(parse_ddl(declared), extra)
        if isinstance(declared, Mapping):
            rules = JsonSchemaRules(declared)
            return cls(rules.columns(), extra, rules)
        return cls(_spark_struct(declared.jsonValue()), extra)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.struct.fields)

    def arrow(self) -> pa.Schema:
        """The columns as Spark's `mapInArrow` wants them. All may be null: refused rows may stand among them."""
        return pa.schema([replace(field, nullable=True).arrow() for field in self.struct.fields])

    def columns(self, documents: Documents, *, step: str = "schema") -> tuple[pa.RecordBatch, dict[int, RecordFailure]]:
        """One column for each field, one row for each document, and which rows do not fit, by their place.

        A document that is None (it could not be read) is a row of nulls. What stands in the row of a failure is not
        to be used. Fields that are missing are null.
        """
        failures = self._refused(documents, step)
        unread = sum(document is None for document in documents)
        arrays = [self._column(field, documents, unread, failures, step) for field in self.struct.fields]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow()), failures

    @property
    def known(self) -> frozenset[str]:
        """The names that are declared; a JSON Schema may declare a field that has no column."""
        return frozenset(self.names) | (self.rules.names if self.rules else frozenset())

    def _column(
        self, field: SchemaField, documents: Documents, unread: int, failures: dict[int, RecordFailure], step: str
    ) -> pa.Array:
        name = field.name
        values = [(document or _EMPTY).get(name) for document in documents]
        array = field.kind.array(values)
        if array is not None and (field.nullable or array.null_count == unread):
            return array
        fitting = []
        for row, value in enumerate(values):
            try:
                fitting.append(None if documents[row] is None else field.fit(value, name))
            except Misfit as misfit:
                fitting.append(None)
                failures.setdefault(row, RecordFailure(ErrorCode.NOT_VALID, step, "schema", str(misfit)))
        return pa.array(fitting, field.kind.arrow)

    def _refused(self, documents: Documents, step: str) -> dict[int, RecordFailure]:
        """What is refused before types are looked at: by the JSON Schema, or for fields outside of the schema."""
        if self.rules is None and self.extra != "refuse":
            return {}
        failures = {}
        for row, document in enumerate(documents):
            if document is not None and (why := self._why_refused(document)):
                failures[row] = RecordFailure(ErrorCode.NOT_VALID, step, "schema", why)
        return failures

    def _why_refused(self, document: dict[str, Any]) -> str | None:
        broken = self.rules.broken(document) if self.rules else None
        if broken or self.extra != "refuse":
            return broken
        # What a JSON Schema leaves open below the first level is for its own `additionalProperties` to refuse.
        found = (
            [name for name in document if name not in self.known] if self.rules else self.struct.outside(document, "")
        )
        outside = [f'"{path}"' for path in found]
        if not outside:
            return None
        more = f" and {len(outside) - _SHOWN_FIELDS} more" if len(outside) > _SHOWN_FIELDS else ""
        return bounded(f"fields outside of the schema: {', '.join(outside[:_SHOWN_FIELDS])}{more}")


def _refuse_repeated(struct: Struct) -> None:
    """Spark does not tell names apart by case, so two columns must differ in more than that."""
    seen: dict[str, str] = {}
    for field in struct.fields:
        other = seen.setdefault(field.name.lower(), field.name)
        if other is not field.name:
            raise BadFlow(f"the schema has both {other!r} and {field.name!r}; Spark does not tell names apart by case")
        if isinstance(field.kind, Struct):
            _refuse_repeated(field.kind)


class JsonSchemaRules:
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
        return Struct(_json_fields(self.schema))

    def __reduce__(self) -> tuple[type[JsonSchemaRules], tuple[dict[str, Any]]]:
        return JsonSchemaRules, (self.schema,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonSchemaRules) and orjson.dumps(other.schema) == orjson.dumps(self.schema)

    def __hash__(self) -> int:
        return hash(orjson.dumps(self.schema))


def _json_fields(schema: Mapping[str, Any]) -> tuple[SchemaField, ...]:
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    found = ((name, _json_column(said), _takes_null(said)) for name, said in properties.items())
    return tuple(
        SchemaField(name, kind, null or name not in required) for name, kind, null in found if kind is not None
    )


def _json_column(schema: Any) -> ColumnType | None:
    name = _json_type(schema)
    if name == "array":
        items = schema.get("items")
        element = _json_column(items)
        if element is None or "prefixItems" in schema:
            return None
        return Array(SchemaField("element", element, _takes_null(items)))
    if name == "object":
        fields = _json_fields(schema)
        return Struct(fields) if fields else None
    return _JSON_SCALARS.get(name) if name else None


def _json_type(schema: Any) -> str | None:
    """The one type besides null that a schema names; None if it names several, or says it in another way."""
    if not isinstance(schema, Mapping):
        return None
    said = schema.get("type")
    names = [name for name in ([said] if isinstance(said, str) else said or ()) if name != "null"]
    return names[0] if len(names) == 1 else None


def _takes_null(schema: Any) -> bool:
    said = schema.get("type") if isinstance(schema, Mapping) else None
    return not isinstance(said, str)


def parse_ddl(text: str) -> Struct:
    """The fields of a schema that is written as text; `BadFlow` if it cannot be read."""
    return Struct(_DdlParser(text).fields(end=None))


class _DdlParser:
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

    def fields(self, end: str | None) -> tuple[SchemaField, ...]:
        fields = [self._field()]
        while self._took(","):
            fields.append(self._field())
        if end is None and self._next < len(self._words):
            raise self._bad(f"{self._words[self._next][0]!r} is not expected")
        if end is not None:
            self._must(end)
        return tuple(fields)

    def _field(self) -> SchemaField:
        name = self._word("the name of a field")
        self._took(":")
        kind = self._kind()
        nullable = not self._took("not")
        if not nullable:
            self._must("null")
        if self._took("comment"):
            self._word("a comment")
        return SchemaField(name, kind, nullable)

    def _kind(self) -> ColumnType:
        name = self._word("a type").lower()
        if name == "array":
            self._must("<")
            element = SchemaField("element", self._kind())
            self._must(">")
            return Array(element)
        if name == "map":
            return self._map()
        if name == "struct":
            self._must("<")
            return Struct(self.fields(">"))
        if name in _DECIMALS:
            return self._decimal()
        if name not in _SIMPLE:
            raise _unusable(name)
        return _SIMPLE[name]

    def _map(self) -> Map:
        self._must("<")
        self._must("string")
        self._must(",")
        value = SchemaField("value", self._kind())
        self._must(">")
        return Map(value)

    def _decimal(self) -> DecimalType:
        if not self._took("("):
            return _decimal(10, 0)
        precision = self._number()
        scale = self._number() if self._took(",") else 0
        self._must(")")
        return _decimal(precision, scale)

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


def _spark_struct(written: Mapping[str, Any]) -> Struct:
    """The fields of a StructType as JSON; `BadFlow` where it has a type that JSON has no value for."""
    return Struct(
        tuple(SchemaField(each["name"], _spark_type(each["type"]), each["nullable"]) for each in written["fields"])
    )


def _spark_type(written: str | Mapping[str, Any]) -> ColumnType:
    if isinstance(written, str):
        if match := _SPARK_DECIMAL.fullmatch(written):
            return _decimal(int(match[1]), int(match[2]))
        if written not in _SIMPLE:
            raise _unusable(written.partition("(")[0])
        return _SIMPLE[written]
    if written["type"] == "struct":
        return _spark_struct(written)
    if written["type"] == "array":
        return Array(SchemaField("element", _spark_type(written["elementType"]), written["containsNull"]))
    if written["type"] == "map":
        if written["keyType"] != "string":
            raise BadFlow(f"a map's names are strings in JSON, not {written['keyType']}")
        return Map(SchemaField("value", _spark_type(written["valueType"]), written["valueContainsNull"]))
    raise _unusable(str(written["type"]))


def _decimal(precision: int, scale: int) -> DecimalType:
    if not 0 <= scale <= precision <= 38 or not precision:
        raise BadFlow(f"decimal({precision},{scale}): at most 38 digits, and no more after the point than altogether")
    return DecimalType(precision, scale)


def _unusable(name: str) -> BadFlow:
    hint = _UNUSABLE.get(name, f"the types are {', '.join(_SIMPLE)}, decimal(p,s), array<>, map<string,>, struct<>")
    return BadFlow(f"a schema cannot have the type {name!r}: {hint}")
