"""The three parts of the workflow, each a function that a spawned process calls with its order.

Each of them can be killed at any moment and called again with the same message: it finds what it had made under the id
that follows from the message, and goes on.
"""
