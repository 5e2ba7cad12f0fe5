"""The `desk_history` table: what persons and rules have done to cases and groups, and why."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from towpath.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.text import storable

_COLUMNS = ("case_id", "group_id", "what", "who", "why", "data", "at")


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that was done: to a case or to a group."""

    what: str
    who: str
    why: str
    case_id: str | None = None
    group_id: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done:
    """An entry as the table has it."""

    seq: int
    what: str
    who: str
    why: str
    data: dict[str, Any]
    at: datetime


class HistoryStore:
    """Writes and reads history inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.desk", "history", database.dialect)

    def add(self, tx: Transaction, entries: Iterable[Entry]) -> None:
        """Write them down, in the transaction that does what they tell of."""
        now = self._database.now()
        plain = _Plain()
        rows = [
            (each.case_id, each.group_id, each.what, plain.text(each.who), plain.text(each.why), plain.json(each), now)
            for each in entries
        ]
        if rows:
            tx.insert_many("desk_history", _COLUMNS, rows)

    def add_same(self, tx: Transaction, entry: Entry, case_ids: Collection[str]) -> None:
        """The same for each of many cases."""
        plain = _Plain()
        told = {"what": entry.what, "who": plain.text(entry.who), "why": plain.text(entry.why)}
        given = {"ids": json.dumps(list(case_ids)), "data": plain.json(entry), **told}
        tx.run(self._sql["add_same"], given)

    def of_case(self, tx: Transaction, case_id: str) -> list[Done]:
        """Oldest first."""
        return [_done(row) for row in tx.rows(self._sql["history_of_case"], {"case": case_id})]

    def of_group(self, tx: Transaction, group_id: int, limit: int = 200) -> list[Done]:
        """The newest of them, oldest first."""
        rows = tx.rows(self._sql["history_of_group"], {"group": group_id, "limit": limit})
        return [_done(row) for row in reversed(rows)]


class _Plain:
    """What is the same for thousands of cases is made storable once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._data: dict[tuple[tuple[str, Any], ...], str] = {}

    def text(self, text: str) -> str:
        if text not in self._texts:
            self._texts[text] = storable(text)
        return self._texts[text]

    def json(self, entry: Entry) -> str:
        try:
            key = tuple(entry.data.items())
            if key not in self._data:
                self._data[key] = json.dumps(dict(entry.data), default=str)
            return self._data[key]
        except TypeError:  # a list in it
            return json.dumps(dict(entry.data), default=str)


def _done(row: tuple[Any, ...]) -> Done:
    seq, what, who, why, data, at = row
    return Done(seq, what, who, why, json.loads(data), to_datetime(at))
