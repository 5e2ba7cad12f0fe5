"""From deliveries to the rows of a table: cells without changing a digit, refusals, and errors as a flow names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from towpath.db.tables.model import is_table_name
from towpath.errors import CommitUnknown, DatabaseError, DatabaseUnavailable, NeedsPerson, SinkError, WriterReplaced
from towpath.flow.failures import ErrorCode, bounded
from towpath.flow.sinks.sink import Deliveries, Refusal

if TYPE_CHECKING:
    from towpath.flow.sinks.table.sink import TableSink

LONGEST_INTEGER = 2**63
QUOTE = ord('"')
NESTED = b"{["

ID = "id"
Row = Sequence[Any]
V = TypeVar("V")


class TableRows:
    """Makes the rows of a sink's tables; of deliveries that make none, it says why."""

    def __init__(self, sink: TableSink) -> None:
        self._cells = Cells(sink.fields, may_leave_out=sink.has_document, is_sqlite=sink.is_sqlite)
        self._columns = list(sink.shape.columns)
        self._key = [self._columns.index(name) for name in sink.shape.key]
        self._has_fields = bool(sink.fields)
        self._has_id = ID not in sink.fields
        self._has_document = sink.has_document

    def by_table(
        self, deliveries: Deliveries, places: Sequence[int], refusals: list[Refusal]
    ) -> Iterator[tuple[str, Sequence[int]]]:
        """The places of each table, in their order."""
        for name, some in _by_target(deliveries, places).items():
            if is_table_name(name):
                yield name, some
            else:
                text = f"{name[:80]!r} cannot be the name of a table: 1 to 63 bytes, not sqlite_… or Towpath's own"
                refusals += [refusal(deliveries, at, "BadTableName", text) for at in some]

    def rows(
        self, deliveries: Deliveries, places: Sequence[int], refusals: list[Refusal]
    ) -> tuple[list[Row], Sequence[int]]:
        """The rows of these places, and the places of these rows."""
        if not self._has_fields:
            texts = map(bytes.decode, chosen(deliveries.payloads, places))
            columns = (deliveries.ids, deliveries.delivery_ids, deliveries.versions)
            return list(zip(*(chosen(column, places) for column in columns), texts, strict=True)), places
        rows: list[Row] = []
        kept: list[int] = []
        payloads, cells_of = deliveries.payloads, self._cells.of
        for at in places:
            payload = payloads[at]
            try:
                row: list[Any] = [deliveries.ids[at]] if self._has_id else []
                row += (deliveries.delivery_ids[at], deliveries.versions[at], *cells_of(payload))
                if self._has_document:
                    row.append(payload.decode())
                self._check_key(row)
            except BadCell as error:
                refusals.append(refusal(deliveries, at, type(error).__name__, str(error)))
            else:
                rows.append(row)
                kept.append(at)
        return rows, kept

    def _check_key(self, row: Row) -> None:
        for number in self._key:
            if row[number] is None:
                raise BadCell(f"the key column {self._columns[number]!r} has no value")


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


class BadCell(ValueError):
    """A field cannot be the cell of a column."""


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


def chosen(column: Sequence[V], places: Sequence[int]) -> Sequence[V]:
    """The values at these places."""
    if isinstance(places, range):
        return column[places.start : places.stop]
    return [column[at] for at in places]


def _by_target(deliveries: Deliveries, places: Sequence[int]) -> dict[str, Sequence[int]]:
    targets = set(chosen(deliveries.targets, places))
    if len(targets) == 1:
        return {targets.pop(): places}
    found: dict[str, list[int]] = {}
    for at in places:
        found.setdefault(deliveries.targets[at], []).append(at)
    return dict(found)


def refusal(deliveries: Deliveries, at: int, kind: str, text: str) -> Refusal:
    """One delivery that cannot be a row."""
    return Refusal(deliveries, at, ErrorCode.ITEM_REFUSED, kind, bounded(text))


@contextmanager
def sink_errors(sink: str) -> Iterator[None]:
    """What goes wrong with a database, in the words of a flow."""
    try:
        yield
    except DatabaseUnavailable as error:
        raise SinkError(ErrorCode.SINK_UNAVAILABLE, sink, str(error)) from error
    except CommitUnknown as error:
        raise SinkError(ErrorCode.NETWORK, sink, str(error)) from error
    except WriterReplaced as error:
        # Not for a person: the stage goes well in other hands.
        raise SinkError(ErrorCode.SINK_REFUSED, sink, str(error)) from error
    except DatabaseError as error:
        raise NeedsPerson(ErrorCode.SINK_REFUSED, sink, str(error)) from error
