"""Servers that Towpath starts on this machine for trying things out, demos, tests and benchmarks.

`Server` is the one shape of all of them; `Stack` is the set that a project has under its state directory. A server
runs in a session of its own, goes on when the process that started it ends, and is found again by its pid file.

May import the core and `towpath.spark` (which Java, which files): it talks to a server's own programs and to its port,
never through its client library.
"""
