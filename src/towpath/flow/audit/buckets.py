"""Rows of a fixed width, spread over files by their first byte, so that a part of them fits into memory at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Self

BUCKETS = 64
IN_MEMORY = 1 << 16  # bytes of each bucket, before it has a file


class Buckets:
    """Add rows, then take them bucket by bucket. Rows with the same beginning are in the same bucket."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._parts = [bytearray() for _ in range(BUCKETS)]
        self._files: dict[int, IO[bytes]] = {}
        self.count = 0

    def add(self, row: bytes) -> None:
        if len(row) != self._width:
            raise ValueError(f"a row has {self._width} bytes, not {len(row)}")
        at = row[0] % BUCKETS
        part = self._parts[at]
        part += row
        self.count += 1
        if len(part) >= IN_MEMORY:
            self._file(at).write(part)
            part.clear()

    def rows(self, bucket: int) -> Iterator[bytes]:
        if bucket in self._files:
            file = self._files[bucket]
            file.seek(0)
            while portion := file.read(self._width * 1_000):
                yield from self._cut(portion)
        yield from self._cut(bytes(self._parts[bucket]))

    def __iter__(self) -> Iterator[bytes]:
        return (row for bucket in range(BUCKETS) for row in self.rows(bucket))

    def _cut(self, portion: bytes) -> Iterator[bytes]:
        return (portion[at : at + self._width] for at in range(0, len(portion), self._width))

    def _file(self, bucket: int) -> IO[bytes]:
        if bucket not in self._files:
            self._files[bucket] = tempfile.TemporaryFile(prefix="towpath-audit-")  # noqa: SIM115 - closed by close()
        return self._files[bucket]

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files = {}
        self._parts = [bytearray() for _ in range(BUCKETS)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
