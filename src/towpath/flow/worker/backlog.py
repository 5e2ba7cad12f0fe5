"""Deliveries that wait until other outputs of their unit are done: in memory, and in a file when there are many."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import IO

from towpath.flow.sinks.sink import Deliveries
from towpath.flow.worker.chunk import Chunk

IN_MEMORY_BYTES = 64 << 20


class Backlog:
    """Comes out in the order in which it was put in."""

    def __init__(self, closing: ExitStack) -> None:
        self._closing = closing
        self._held: list[Sequence[Deliveries]] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None

    def add(self, deliveries: Sequence[Deliveries]) -> None:
        slim = [_slim(each) for each in deliveries]
        if self._bytes <= IN_MEMORY_BYTES:
            self._held.append(slim)
            self._bytes += sum(len(payload) for each in slim for payload in each.payloads)
            return
        if self._file is None:
            self._file = self._closing.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - closed with the task
        pickle.dump(slim, self._file, pickle.HIGHEST_PROTOCOL)

    def __iter__(self) -> Iterator[Sequence[Deliveries]]:
        while self._held:
            yield self._held.pop(0)
        if self._file is None:
            return
        self._file.seek(0)
        while True:
            try:
                yield pickle.load(self._file)  # noqa: S301 - written by ourselves a moment ago
            except EOFError:
                return


def _slim(deliveries: Deliveries) -> Deliveries:
    """Without the documents of its chunk: of that only the records are needed, where one is refused."""
    chunk = deliveries.source
    return replace(deliveries, source=Chunk(chunk.records, chunk.inputs, [], [], siblings=chunk.siblings), parsed=None)
