"""Servers that Towpath starts on this machine for demos, tests and benchmarks.

May import `towpath.errors` and the standard library only: it talks to a server's own
programs, never to its client library.
"""
