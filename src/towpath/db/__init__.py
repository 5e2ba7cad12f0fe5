"""The SQL database: open it, run named queries in transactions, upgrade its tables, keep process rows and events.

May import the core modules only. `sqlite3` and `psycopg` are used here and nowhere else.
"""

from towpath.db.database import Database, Transaction
from towpath.db.open import open_database
from towpath.db.queries import Queries, Query

__all__ = ["Database", "Queries", "Query", "Transaction", "open_database"]
