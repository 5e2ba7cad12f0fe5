"""Starts by the clock."""
