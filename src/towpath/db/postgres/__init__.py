"""PostgreSQL: the database itself and wake-ups by LISTEN and NOTIFY. Needs psycopg."""
