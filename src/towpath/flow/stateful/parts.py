"""Parts of many records at once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from towpath.flow.stateful.record_part import Field, Header, Key, RecordPart, document_of, field_of, whole_number


class Parts:
    """Parts of the records of an Arrow table, as bytes; None where a record has no such part."""

    def __init__(self, records: pa.Table | pa.RecordBatch) -> None:
        self._records = records

    def of(self, part: RecordPart) -> list[bytes | None]:
        match part:
            case Key():
                return self._column("key").to_pylist()  # type: ignore[no-any-return]
            case Header(name):
                return self._headers(name)
            case Field(names):
                return [field_of(document, names) for document in self._documents]

    def numbers(self, part: RecordPart) -> list[int | None]:
        return [whole_number(text) for text in self.of(part)]

    def _column(self, name: str) -> pa.Array:
        column = self._records.column(name)
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    @cached_property
    def _documents(self) -> list[Any]:
        return [document_of(value) for value in self._column("value").to_pylist()]

    def _headers(self, name: str) -> list[bytes | None]:
        column = self._column("headers")
        found: list[bytes | None] = [None] * len(column)
        all_headers = column.flatten()
        wanted = pc.indices_nonzero(pc.fill_null(pc.equal(all_headers.field("key"), name), False))
        owners = pc.list_parent_indices(column).take(wanted).to_pylist()
        for owner, value in zip(owners, all_headers.field("value").take(wanted).to_pylist(), strict=True):
            found[owner] = value
        return found
