"""Complaints: what readers say about documents, and what was done about it."""
