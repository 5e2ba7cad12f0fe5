"""Actors that run a process for the messages of an inbox."""
