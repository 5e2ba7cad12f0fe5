"""HTTP: the JSON API under `/api/v1`, the gateway under `/gateway/v1`, pages, health and metrics. Parse, call, show.

Only here FastAPI is imported. May import every layer below the command line.

Each request passes `middleware.py`: its id, the name that it was asked under, its size. A route says which scope it
needs (`auth.py`). A route that changes something makes the change through `changes.py`, which keeps the audit trail and
the idempotency keys. Whatever goes wrong has one shape (`failures.py`): `{"error": {"code", "message", "details"}}`.

Handlers are plain functions: they run in a pool of threads. Those of chunks and of streams are coroutines, because they
wait for clients; what they do themselves goes to the pool. `visitors.py` limits how many chunks and streams are under
way at once, and how fast a key may be.
"""
