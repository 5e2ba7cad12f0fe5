"""Lines of text, from bytes that come in pieces of any size and may be anything."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

LONGEST_LINE = 64 << 10


class Lines:
    """Cuts what it is fed into lines; those that are very long into pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def feed(self, data: bytes) -> Iterator[str]:
        *whole, self._rest = (self._rest + self._decoder.decode(data)).split("\n")
        for line in whole:
            yield from _pieces(line.removesuffix("\r"))
        while len(self._rest) > LONGEST_LINE:
            yield self._rest[:LONGEST_LINE]
            self._rest = self._rest[LONGEST_LINE:]

    def end(self) -> Iterator[str]:
        """What came after the last end of a line."""
        self._rest += self._decoder.decode(b"", final=True)
        if self._rest:
            yield from _pieces(self._rest)
            self._rest = ""


def _pieces(line: str) -> Iterator[str]:
    yield line[:LONGEST_LINE]
    for start in range(LONGEST_LINE, len(line), LONGEST_LINE):
        yield line[start : start + LONGEST_LINE]
