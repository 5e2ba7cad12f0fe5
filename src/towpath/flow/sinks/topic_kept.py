"""A part that is being written. Its deliveries are kept until it is committed: it may have to be done again."""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import IO

from towpath.flow.mark_topic import Reason, Said
from towpath.flow.sinks.sink import Deliveries

IN_MEMORY_BYTES = 64 << 20
GROUPS = 16


class Kept:
    """In memory, and in a file when there are many. May be gone through again and again, in the order it came in."""

    def __init__(self) -> None:
        self._held: list[Deliveries] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None

    def add(self, deliveries: Deliveries) -> None:
        slim = _slim(deliveries)
        if self._bytes <= IN_MEMORY_BYTES:
            self._held.append(slim)
            self._bytes += sum(map(len, slim.payloads))
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open for as long as the transaction
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


@dataclass(slots=True)
class OpenPart:
    """A part in an open transaction."""

    number: int
    kept: Kept = field(default_factory=Kept)
    count: int = 0
    refused: dict[bytes, Reason] = field(default_factory=dict)  # and told
    bad: dict[bytes, str] = field(default_factory=dict)  # what a broker has refused, and why
    suspects: frozenset[bytes] = frozenset()  # of which a broker has refused one, or some
    began: float = field(default_factory=time.monotonic)

    def add(self, piece: Deliveries) -> None:
        self.count += len(piece)
        self.kept.add(piece)

    def groups(self, ids: Sequence[bytes], places: Sequence[int]) -> list[Sequence[int]]:
        """The places as they are to travel: suspects in groups, to see in which the bad one is."""
        if not self.suspects:
            return [places] if places else []
        most = max(1, len(self.suspects) // GROUPS)
        groups: list[list[int]] = [[]]
        seen = 0
        for at in places:
            is_suspect = ids[at] in self.suspects
            if is_suspect and seen % most == 0:
                groups.append([])
            groups[-1].append(at)
            seen += is_suspect
        return [group for group in groups if group]

    @property
    def said(self) -> Said:
        return Said(self.count, self.refused)


def _slim(deliveries: Deliveries) -> Deliveries:
    """Without documents: of where it came from only the records are needed, where one is refused."""
    source = deliveries.source
    slim = source.only(range(len(deliveries))) if hasattr(source, "only") else source
    return replace(deliveries, source=slim, parsed=None)
