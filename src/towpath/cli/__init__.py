"""The `towpath` command. Thin: parse, call, show. May import every layer; nothing imports it.

What a command needs is imported when it runs, so that `towpath --help` comes at once.
"""

from towpath.cli.command import app, main

__all__ = ["app", "main"]
