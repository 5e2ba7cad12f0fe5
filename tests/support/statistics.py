"""What a database knows of its tables when it plans, for the time of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# As in a table that was never looked at.
FORGET_SIZES = """
update pg_class set relpages = 0, reltuples = -1
where oid = %(table)s::regclass
   or oid in (select indexrelid from pg_index where indrelid = %(table)s::regclass)
"""


@contextmanager
def statistics(database: Any, *tables: str) -> Iterator[None]:
    """Of these tables, and none behind it: other tests find the database as if nobody had run ANALYZE.

    A rollback takes them back, but for the sizes, which PostgreSQL writes outside of any transaction.
    """
    connection = database.connection()
    connection.execute("begin")
    try:
        for table in tables:
            connection.execute(f"analyze {table}")
        yield
    finally:
        connection.execute("rollback")
        if database.dialect == "postgres":
            for table in tables:
                connection.execute(FORGET_SIZES, {"table": table})
