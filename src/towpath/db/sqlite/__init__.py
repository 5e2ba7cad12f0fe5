"""SQLite: the database itself and wake-ups between processes of one machine."""
