"""Processes that have to run: peers that elect a coordinator, which watches duties and starts again what has died.

May import `notify`, `actors`, `queue`, `db` and the core modules; not the desk, not flows.
"""
