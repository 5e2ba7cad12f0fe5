"""From a document to the cells of a row, without changing a digit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import msgspec

LONGEST_INTEGER = 2**63
QUOTE = ord('"')
NESTED = b"{["


class BadCell(ValueError):
    """A field cannot be the cell of a column."""


class Cells:
    """Cuts documents into the texts of their fields and picks those that have a column.

    PostgreSQL is given texts, which it reads as the type of the column; SQLite is given Python's values. A nested value
    is its JSON text on both. A field that is not there, and null, are NULL.
    """

    def __init__(self, names: Sequence[str], *, may_leave_out: bool, is_sqlite: bool) -> None:
        self._names = names
        self._known = frozenset(names)
        self._may_leave_out = may_leave_out
        self._decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
        self._text = msgspec.json.Decoder(str).decode
        self._number: Callable[[str], Any] = _python_number if is_sqlite else str
        truth = (1, 0) if is_sqlite else ("true", "false")
        self._words: dict[bytes, Any] = {b"true": truth[0], b"false": truth[1], b"null": None}

    def of(self, payload: bytes) -> list[Any]:
        """One cell for each column."""
        fields = self._decode(payload)
        if not self._may_leave_out and not self._known.issuperset(fields):
            extra = sorted(set(fields) - self._known)
            raise BadCell(f"field {extra[0]!r} has no column, and the whole document is not kept (document=False)")
        cell = self._cell
        return [cell(bytes(fields[name])) if name in fields else None for name in self._names]

    def _cell(self, token: bytes) -> Any:
        first = token[0]
        if first == QUOTE:
            # Without an escape the text is what stands between the quotes.
            return self._text(token) if b"\\" in token else token[1:-1].decode()
        if first in NESTED:
            return token.decode()
        if token in self._words:
            return self._words[token]
        return self._number(token.decode())


def _python_number(text: str) -> int | float:
    """The number as SQLite can hold it: 64 bits, whole or binary floating point."""
    if text.lstrip("-").isdigit():
        whole = int(text)
        if not -LONGEST_INTEGER <= whole < LONGEST_INTEGER:
            raise BadCell(f"{text[:40]} does not fit into 64 bits")
        return whole
    number = float(text)
    if Decimal(repr(number)) != Decimal(text) if abs(number) != float("inf") else True:
        raise BadCell(f"{text[:40]} has more digits than SQLite would keep")
    return number
