"""Runs the instances of actors: lets starts in, claims, runs, commits, and recovers from deaths."""
