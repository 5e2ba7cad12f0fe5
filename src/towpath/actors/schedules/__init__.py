"""Starts actors by the clock."""
