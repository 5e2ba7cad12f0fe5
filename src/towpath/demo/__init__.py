"""A show of what the queue promises: two workers, a thousand requests, one of the two killed at its work.

May import all layers below the command line. `stage.py` runs it, `worker.py` is what it starts twice, `ledger.py` reads
from database and journals what came of it.
"""
