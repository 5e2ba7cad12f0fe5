"""Tables of SQLite and PostgreSQL as a sink."""
