"""Actors that run processes."""
