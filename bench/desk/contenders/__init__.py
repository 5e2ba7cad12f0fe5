"""Processes of their own: a flow at work, and the desk beside it."""
