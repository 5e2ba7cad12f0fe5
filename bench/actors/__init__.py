"""`make bench-actors`: transitions of durable actors beside DBOS, going on after a kill, and very many that sleep.

The peer runs in an environment of its own: the one of the queue's peers, to which it belongs.
"""
