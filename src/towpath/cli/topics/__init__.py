"""`towpath topic`: topics and their records."""
