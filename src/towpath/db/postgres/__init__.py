"""PostgreSQL; the only importer of psycopg besides db.open and db.tables.postgres."""
