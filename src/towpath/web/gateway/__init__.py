"""Uploads and results over HTTP."""
