"""The two formats of files: written aside, then renamed."""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from towpath.flow.failures import ErrorCode, bounded
from towpath.flow.sinks.sink import Deliveries, Refusal, one_line_each

if TYPE_CHECKING:
    import pyarrow


GZIP_LEVEL = 6
BUFFER_BYTES = 1 << 20
GROUP_ROWS = 50_000
GROUP_BYTES = 32 << 20


def ids_path(path: Path) -> Path:
    """Where the ids of a file of JSON lines are."""
    return path.with_name(f".{path.name}.ids")


class JsonFile:
    """Records as lines. Opened only to append, so that any number of them can be under way."""

    def __init__(self, path: Path, aside: Path, is_gzip: bool, *, has_ids: bool = True) -> None:
        """`has_ids`: beside the file another one is written, with the ids of its records."""
        self.path = path
        self.buffered = 0
        self._has_ids = has_ids
        self._aside = aside
        self._ids_aside = aside.with_name(aside.name.removesuffix(".tmp") + ".ids.tmp")
        self._is_gzip = is_gzip
        self._is_begun = False
        self._lines: list[bytes] = []
        self._ids: list[bytes] = []

    def add(self, deliveries: Deliveries, places: Sequence[int]) -> list[Refusal]:
        """Take these."""
        payloads = one_line_each([deliveries.payloads[at] for at in places])
        self._lines += payloads
        self._ids += [
            orjson.dumps((deliveries.delivery_ids[at].hex(), deliveries.versions[at], deliveries.ids[at]))
            for at in (places if self._has_ids else ())
        ]
        self.buffered += sum(map(len, payloads))
        if self.buffered > BUFFER_BYTES:
            self.flush()
        return []

    def flush(self) -> None:
        """Write what is in memory."""
        lines, ids = (b"".join(each + b"\n" for each in some) for some in (self._lines, self._ids))
        _append(self._aside, gzip.compress(lines, GZIP_LEVEL, mtime=0) if self._is_gzip else lines, self._is_begun)
        if self._has_ids:
            _append(self._ids_aside, ids, self._is_begun)
        self._lines, self._ids, self.buffered, self._is_begun = [], [], 0, True

    def complete(self) -> None:
        """Have everything on the disk, under the hidden name."""
        self.flush()
        if self._has_ids:
            sync(self._ids_aside)
        sync(self._aside)

    def publish(self) -> None:
        """Give it its name."""
        # The ids first: a file that can be seen has its ids.
        if self._has_ids:
            self._ids_aside.replace(ids_path(self.path))
        self._aside.replace(self.path)

    def discard(self) -> None:
        """Leave nothing behind."""
        _remove(self._aside, self._ids_aside)


class ParquetFile:
    """Records as rows. It does what a `JsonFile` does."""

    def __init__(self, path: Path, aside: Path, schema: pyarrow.Schema | None, compression: str) -> None:
        import pyarrow
        from pyarrow import parquet

        self._arrow = pyarrow
        own = [("id", pyarrow.string()), ("delivery_id", pyarrow.binary()), ("version", pyarrow.int64())]
        typed = list(schema) if schema is not None else []
        document = pyarrow.field("document", pyarrow.string(), nullable=False)
        self._schema = pyarrow.schema([*(pyarrow.field(*each, nullable=False) for each in own), *typed, document])
        self._typed = typed
        self.path = path
        self.buffered = 0
        self._aside = aside
        self._rows: list[tuple[Any, ...]] = []
        self._writer = parquet.ParquetWriter(aside, self._schema, compression=compression)

    def add(self, deliveries: Deliveries, places: Sequence[int]) -> list[Refusal]:
        refusals: list[Refusal] = []
        if self._typed:
            places, refusals = self._fitting(deliveries, places)
        for at in places:
            cells = [deliveries.documents[at].get(field.name) for field in self._typed]
            payload = deliveries.payloads[at]
            self._rows.append(
                (deliveries.ids[at], deliveries.delivery_ids[at], deliveries.versions[at], *cells, payload)
            )
            self.buffered += len(payload)
        if len(self._rows) >= GROUP_ROWS or self.buffered > GROUP_BYTES:
            self.flush()
        return refusals

    def flush(self) -> None:
        if not self._rows:
            return
        columns = [
            self._array(cells, field.type)
            for cells, field in zip(zip(*self._rows, strict=True), self._schema, strict=True)
        ]
        self._writer.write_table(self._arrow.Table.from_arrays(columns, schema=self._schema))
        self._rows, self.buffered = [], 0

    def complete(self) -> None:
        self.flush()
        self._writer.close()
        sync(self._aside)

    def publish(self) -> None:
        self._aside.replace(self.path)

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            self._writer.close()
        _remove(self._aside)

    def _array(self, cells: Sequence[Any], kind: Any) -> Any:
        if kind == self._arrow.string() and cells and isinstance(cells[0], bytes):
            return self._arrow.array(cells, self._arrow.binary()).cast(kind)
        return self._arrow.array(cells, kind)

    def _fitting(self, deliveries: Deliveries, places: Sequence[int]) -> tuple[Sequence[int], list[Refusal]]:
        """The places whose fields have the types of the schema, and why others have not."""
        bad: dict[int, str] = {}
        for field in self._typed:
            cells = [deliveries.documents[at].get(field.name) for at in places]
            if self._misfit(cells, field) is not None:
                for at, cell in zip(places, cells, strict=True):
                    text = self._misfit([cell], field)
                    if text is not None:
                        bad.setdefault(at, f"field {field.name!r}: {text}")
        refusals = [
            Refusal(deliveries, at, ErrorCode.ITEM_REFUSED, "BadCell", bounded(text)) for at, text in bad.items()
        ]
        return [at for at in places if at not in bad], refusals

    def _misfit(self, cells: Sequence[Any], field: Any) -> str | None:
        if not field.nullable and None in cells:
            return "has no value"
        try:
            self._arrow.array(cells, field.type)
        except (self._arrow.ArrowException, OverflowError, TypeError, ValueError) as error:
            return str(error)
        return None


OpenFile: TypeAlias = JsonFile | ParquetFile


def _append(path: Path, data: bytes, is_begun: bool) -> None:
    """Add to a file. One that was begun is not made again: a later attempt has deleted it, and what it held is gone."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | (0 if is_begun else os.O_CREAT), 0o666)
    with open(handle, "wb") as file:
        file.write(data)


def sync(path: Path) -> None:
    """Have what a file holds, or which entries a directory has, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(*paths: Path) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
