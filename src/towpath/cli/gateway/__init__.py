"""`send`, `receive`, `upload`."""
