"""`towpath --remote URL …`: commands that ask a server's JSON API in place of a database.

A command is parsed as ever. Then `run.CALLS` says what it asks of the API and how its answer becomes what the command
prints here: the same JSON with `--json`, a table or a sentence without. A change carries an idempotency key, so that
asking again after a cut does nothing twice. May import the rest of the command line, which imports `command.py` only.
"""
