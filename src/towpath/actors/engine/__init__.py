"""Claim, run, commit, recover."""
