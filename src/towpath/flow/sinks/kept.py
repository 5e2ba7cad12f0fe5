"""Deliveries that may be needed again, or not before later."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import IO

from towpath.flow.sinks.sink import Deliveries

IN_MEMORY_BYTES = 64 << 20


class Kept:
    """In memory, and in a file when there are many. May be gone through again and again, in the order it came in."""

    def __init__(self, shares: int = 1) -> None:
        self._most_bytes = IN_MEMORY_BYTES // shares  # where several share the memory of a task
        self._held: list[Deliveries] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None

    def add(self, deliveries: Deliveries) -> None:
        slim = _slim(deliveries)
        if self._bytes <= self._most_bytes:
            self._held.append(slim)
            self._bytes += sum(map(len, slim.payloads))
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open until it is cleared
        self._file.seek(0, 2)
        pickle.dump(slim, self._file, pickle.HIGHEST_PROTOCOL)

    def __iter__(self) -> Iterator[Deliveries]:
        yield from self._held
        if self._file is None:
            return
        self._file.seek(0)
        while True:
            try:
                yield pickle.load(self._file)  # noqa: S301 - written by ourselves a moment ago
            except EOFError:
                return

    def clear(self) -> None:
        self._held, self._bytes = [], 0
        if self._file is not None:
            self._file.close()
            self._file = None


def _slim(deliveries: Deliveries) -> Deliveries:
    """Without documents: of where it came from only the records are needed, where one is refused."""
    source = deliveries.source
    slim = source.only(range(len(deliveries))) if hasattr(source, "only") else source
    return replace(deliveries, source=slim, parsed=None)
