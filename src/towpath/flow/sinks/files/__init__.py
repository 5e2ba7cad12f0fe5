"""JSON lines and Parquet files."""
