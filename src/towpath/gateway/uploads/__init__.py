"""Uploads, their senders, and the streams they are sent to."""
