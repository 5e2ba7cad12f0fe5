"""Questions to PostgreSQL about the work of a contender, beside the contender's own connections."""

from __future__ import annotations

import psycopg


def count_rows(target: str, sql: str) -> int:
    """The number that a counting query gives."""
    with psycopg.connect(target) as connection:
        row = connection.execute(sql.encode()).fetchone()
    assert row is not None
    return int(row[0])


def synchronous_commit(target: str) -> str:
    """What a connection without settings of its own commits with; no contender changes it."""
    with psycopg.connect(target) as connection:
        row = connection.execute("SHOW synchronous_commit").fetchone()
    assert row is not None
    return str(row[0])
