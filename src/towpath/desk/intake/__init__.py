"""Error topics and outcomes become cases."""
