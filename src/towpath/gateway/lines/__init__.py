"""Bytes to lines to values; pure."""
