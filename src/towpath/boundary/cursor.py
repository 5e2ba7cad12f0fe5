"""Cursors: where a reader of a result is, as a text that it hands back. Pure.

A cursor names the file (lane, generation, batch, key), the byte in it and the number of rows before it. It bears a sum
over all this and over upload and query, so that one that was cut off, typed wrong or meant for another query is refused
and not taken for some other place. The sum is no secret: whoever makes up a cursor sees only rows that are its own, and
a byte that is not the beginning of a line is refused by whoever reads there.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from towpath.errors import BadCursor

VERSION = "1"
NO_FILE = "-"
MOST_CHARACTERS = 200

_NUMBER = r"(0|[1-9]\d{0,17})"
_CURSOR = re.compile(
    rf"{VERSION}\.{_NUMBER}\.{_NUMBER}\.{_NUMBER}\.(-|[0-9a-f]{{16}})\.{_NUMBER}\.{_NUMBER}\.([0-9a-f]{{12}})"
)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a result, before its first row or behind some row of a file."""

    lane: int = 0
    generation: int = 0
    batch: int = 0
    key: str = NO_FILE
    byte: int = 0
    row: int = 0  # rows before it, from the beginning of the result

    @property
    def is_start(self) -> bool:
        return self.key == NO_FILE

    @property
    def place(self) -> tuple[int, int, int]:
        return self.lane, self.generation, self.batch

    def to_text(self, upload: str, query: str) -> str:
        said = f"{VERSION}.{self.lane}.{self.generation}.{self.batch}.{self.key}.{self.byte}.{self.row}"
        return f"{said}.{_sum(said, upload, query)}"

    @classmethod
    def from_text(cls, text: str, upload: str, query: str) -> Cursor:
        """The cursor that `to_text` wrote for this query; `BadCursor` for anything else."""
        fits = _CURSOR.fullmatch(text) if len(text) <= MOST_CHARACTERS and text.isascii() else None
        if fits is None:
            raise BadCursor(text, "it is not one that was given out; leave it out to begin at the first row")
        lane, generation, batch, key, byte, row, said = fits.groups()
        if said != _sum(text.rpartition(".")[0], upload, query):
            raise BadCursor(text, "it was changed, or belongs to another upload or query")
        found = cls(int(lane), int(generation), int(batch), key, int(byte), int(row))
        if found.is_start and found != START:
            raise BadCursor(text, "it names no file and yet a place in one")
        return found


START = Cursor()


def _sum(said: str, upload: str, query: str) -> str:
    return hashlib.sha256(f"{said}\n{upload}\n{query}".encode()).hexdigest()[:12]
