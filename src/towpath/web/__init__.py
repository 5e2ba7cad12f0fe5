"""HTTP: the JSON API under `/api/v1`, the gateway under `/gateway/v1`, health and metrics. Thin: parse, call, show.

Only here FastAPI is imported.

May import every layer below the command line. Each request passes the same frame (`frame.py`): its id, the name that
it was asked under, its size. A route says which scope it needs (`asking.py`); a route that changes something makes the
change through `changing.py`, which keeps the trail and the idempotency keys. Whatever goes wrong has one shape
(`failures.py`): `{"error": {"code", "message", "details"}}`.

Handlers are plain functions: they run in a pool of threads. Those of chunks and of streams are coroutines, since they
wait for clients; what they do themselves goes to the pool. How many chunks and streams are under way at once, and how
fast a key may be, is looked after in `visiting.py`.
"""
