"""Bytes to lines to values of records. Pure."""
