"""Looking into the tables, and changing them by hand, as a person with a SQL prompt would."""

from __future__ import annotations

import re
from typing import Any

from towpath.db import Database, Query

IN_BEATS = frozenset({"process", "clock_shift"})

TableRow = dict[str, Any]


def rows(database: Database, table: str) -> list[TableRow]:
    """Every row of a table, whole, in the order of its first column."""
    home: Any = database.beats if table in IN_BEATS else database
    cursor = home.connection().execute(f"select * from {table} order by 1")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def message_row(database: Database, message_id: str) -> TableRow:
    """One message, whole."""
    [found] = [row for row in rows(database, "message") if row["id"] == message_id]
    return found


def states(database: Database) -> list[str]:
    """The states of all messages, the oldest first."""
    return [row["state"] for row in rows(database, "message")]


def events(database: Database, *kinds: str) -> list[TableRow]:
    """The stored events of the given kinds, the oldest first."""
    return [row for row in rows(database, "event") if row["kind"] in kinds]


def by_hand(database: Database, statement: str, **params: Any) -> int:
    """Run one statement (parameters as `:name`) in a transaction of its own; returns how many rows it touched."""
    home = database.beats if any(f" {table} " in f" {statement} " for table in IN_BEATS) else database
    if database.dialect == "postgres":
        statement = re.sub(r"(?<![:\w]):([a-z_]\w*)", r"%(\1)s", statement)
    with home.transaction() as tx:
        return tx.run(Query("by_hand", statement, uses_now=False), params)
