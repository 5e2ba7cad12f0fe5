"""What the records of a topic must look like, and how they become typed columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from towpath.errors import BadFlow
from towpath.flow.codes import ErrorCode
from towpath.flow.failure import Failure, bounded
from towpath.flow.text import ddl, spark
from towpath.flow.text.kind import Misfit
from towpath.flow.text.nested import Field, Struct
from towpath.flow.text.rules import Rules

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Extra = Literal["keep", "drop", "refuse"]
Documents = Sequence[dict[str, Any] | None]

_SHOWN_FIELDS = 5
_EMPTY: dict[str, Any] = {}


@dataclass(frozen=True)
class Schema:
    """Fields with types, and what is done about fields outside of it. Make one with `Schema.of`."""

    struct: Struct
    extra: Extra = "keep"
    rules: Rules | None = None

    def __post_init__(self) -> None:
        if self.extra not in ("keep", "drop", "refuse"):
            raise BadFlow(f"extra={self.extra!r}: it is keep, drop or refuse")
        _refuse_repeated(self.struct)

    @classmethod
    def of(cls, declared: str | StructType | Mapping[str, Any], *, extra: Extra = "keep") -> Schema:
        """From a text (`name string not null, at bigint`), a Spark StructType, or a JSON Schema as a dict."""
        if isinstance(declared, str):
            return cls(ddl.parsed(declared), extra)
        if isinstance(declared, Mapping):
            rules = Rules(declared)
            return cls(rules.columns(), extra, rules)
        return cls(spark.from_spark(declared), extra)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.struct.fields)

    def arrow(self, *, nullable: bool = False) -> pa.Schema:
        """The columns as Spark's `mapInArrow` wants them; with `nullable`, refused rows may stand among them."""
        return pa.schema([field.arrow() for field in self._fields(nullable)])

    def spark_type(self, *, nullable: bool = False) -> StructType:
        """The same as Spark's type."""
        return spark.to_spark(Struct(self._fields(nullable)))

    def columns(self, documents: Documents, *, step: str = "schema") -> tuple[pa.RecordBatch, dict[int, Failure]]:
        """One column for each field, one row for each document, and which rows do not fit, by their place.

        A document that is None (it could not be read) is a row of nulls. What stands in the row of a failure is not
        to be used. Fields that are missing are null.
        """
        failures = self._refused(documents, step)
        unread = sum(document is None for document in documents)
        arrays = [self._column(field, documents, unread, failures, step) for field in self.struct.fields]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow(nullable=True)), failures

    def extras(self, documents: Documents) -> dict[int, list[str]]:
        """The fields outside of the schema, by row: what `extra="drop"` is to cut from the text."""
        declared = self.known
        return {
            row: [name for name in document if name not in declared]
            for row, document in enumerate(documents)
            if document and not document.keys() <= declared
        }

    @property
    def known(self) -> frozenset[str]:
        """The names that are declared; a JSON Schema may declare a field that has no column."""
        return frozenset(self.names) | (self.rules.names if self.rules else frozenset())

    def _fields(self, nullable: bool) -> tuple[Field, ...]:
        fields = self.struct.fields
        return tuple(replace(field, nullable=True) for field in fields) if nullable else fields

    def _column(
        self, field: Field, documents: Documents, unread: int, failures: dict[int, Failure], step: str
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
                failures.setdefault(row, Failure(ErrorCode.NOT_VALID, step, "schema", str(misfit)))
        return pa.array(fitting, field.kind.arrow)

    def _refused(self, documents: Documents, step: str) -> dict[int, Failure]:
        """What is refused before types are looked at: by the JSON Schema, or for fields outside of the schema."""
        if self.rules is None and self.extra != "refuse":
            return {}
        failures = {}
        for row, document in enumerate(documents):
            if document is not None and (why := self._why_refused(document)):
                failures[row] = Failure(ErrorCode.NOT_VALID, step, "schema", why)
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
