"""JSON lines and Parquet files as a sink."""
