"""The queue against its peers, in the same run: `python -m bench.queue`.

Two kinds of process. The orchestrator (everything beside `contenders/`) runs in Towpath's
environment. A contender runs one operation per process; peers do so with the interpreter
of their own environment, so `contenders/` imports the standard library and one peer only.
"""
