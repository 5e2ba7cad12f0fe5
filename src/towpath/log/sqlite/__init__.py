"""The log as tables of a SQLite file."""
