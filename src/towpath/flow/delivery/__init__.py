"""Exactly-once delivery: positions, ids, marks, the ledger of batches, and the places of records."""
