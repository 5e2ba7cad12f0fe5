"""Uploads, senders and streams."""
