"""Tables of SQLite and PostgreSQL."""
