"""Exactly-once delivery: positions, ids, marks, ledger, snapshot."""
