"""The SQL database: open it, run named queries in transactions, upgrade its tables, keep process rows and events.

May import the core modules only. `sqlite3` and `psycopg` are used here and nowhere else.
"""

import typing

from towpath.db.database import Database, Queries, Query, Transaction

if typing.TYPE_CHECKING:
    from towpath.db.open import open_database


__all__ = ["Database", "Queries", "Query", "Transaction", "open_database"]


def __getattr__(name: str) -> typing.Any:
    # Loaded when first asked for: a worker of Spark reads a SQLite file and has no use for the drivers and settings.
    if name == "open_database":
        from towpath.db.open import open_database

        globals()[name] = open_database
        return open_database
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
