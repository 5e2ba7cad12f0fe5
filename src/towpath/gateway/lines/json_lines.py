"""JSON lines to records: each line is one JSON object, strictly, and its bytes stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from towpath.flow.documents import Schema, read_documents
from towpath.flow.documents.splice import SPACE, MemberFinder
from towpath.flow.documents.types import Struct
from towpath.gateway.lines.lines import LineReading, LineRefusal, Stamp, too_long

_EMPTY = b"}"


class JsonLines:
    """Reads the lines of one sender. Fields outside of the schema stay."""

    def __init__(self, schema: Struct | None, stamp: Stamp, key: str | None, most_bytes: int) -> None:
        self._schema = None if schema is None else Schema(schema)
        self._stamp = stamp
        self._key = key
        self._finder = None if key is None else MemberFinder([key])
        self._most_bytes = most_bytes

    def read(self, lines: Sequence[bytes], numbers: Sequence[int]) -> LineReading:
        texts = [None if len(line) > self._most_bytes else line.strip(SPACE) or None for line in lines]
        documents, failures = read_documents(texts, max_bytes=self._most_bytes)
        refusals = {
            row: LineRefusal(failure.exception, failure.message)
            for row, failure in failures.items()
            if texts[row] is not None
        }
        refusals |= {row: too_long(self._most_bytes) for row, line in enumerate(lines) if len(line) > self._most_bytes}
        self._refuse_reserved(documents, refusals)
        self._refuse_misfits(documents, refusals)
        values, keys = self._records(texts, documents, numbers, refusals)
        return LineReading(values, keys, refusals)

    def _refuse_reserved(self, documents: Sequence[dict[str, Any] | None], refusals: dict[int, LineRefusal]) -> None:
        for name in self._stamp.reserved:
            for row, document in enumerate(documents):
                if document is not None and name in document:
                    message = f"it has a field {name!r}, and the gateway puts one of that name into each record"
                    refusals.setdefault(row, LineRefusal("reserved field", message))

    def _refuse_misfits(self, documents: Sequence[dict[str, Any] | None], refusals: dict[int, LineRefusal]) -> None:
        if self._schema is not None:
            _, failures = self._schema.columns(documents)
            for row, failure in failures.items():
                if documents[row] is not None:
                    refusals.setdefault(row, LineRefusal(failure.exception, failure.message))

    def _records(
        self,
        texts: Sequence[bytes | None],
        documents: Sequence[dict[str, Any] | None],
        numbers: Sequence[int],
        refusals: dict[int, LineRefusal],
    ) -> tuple[list[bytes | None], list[bytes | None]]:
        values: list[bytes | None] = []
        keys: list[bytes | None] = []
        is_same = not self._stamp.line_field
        beginning = self._stamp.beginning(0).encode()
        for row, text in enumerate(texts):
            document = documents[row]
            if text is None or document is None or row in refusals:
                values.append(None)
                keys.append(None)
                continue
            begun = beginning if is_same else self._stamp.beginning(numbers[row]).encode()
            rest = text[1:].lstrip(SPACE)
            values.append(begun + (rest if rest == _EMPTY else b"," + rest))
            keys.append(self._key_of(text, document))
        return values, keys

    def _key_of(self, text: bytes, document: dict[str, Any]) -> bytes | None:
        """The text of the key's field: of a string its characters, of anything else what stands in the line."""
        if self._key is None or self._finder is None:
            return None
        value = document.get(self._key)
        if isinstance(value, str):
            return value.encode() or None
        if value is None:
            return None
        *_, (_, _, start, end) = self._finder.find(text)
        return text[start:end]
