"""The log as tables."""
