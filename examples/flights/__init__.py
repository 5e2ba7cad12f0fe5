"""A worked example: itineraries of flights come in from many clients at once, and four answers go back to each.

`python -m examples.flights` runs it and compares every answer with an oracle, byte by byte. `world/` makes the data,
with a seed. `oracle.py` answers in plain Python, `batch_job.py` in plain Spark, and `flow.py` in a flow that survives
any crash: its queries are those of `queries.py`.
"""
