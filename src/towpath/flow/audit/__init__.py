"""The audit: whether every record that arrived is in exactly one place. It does not take the ledger's word.

1. *View.* First where the error topic ends, then the whole ledger in one read, then where every topic ends. A batch
   that is committed meanwhile is not in the view: its records are in flight, its errors lie behind the first end.
2. *Chain.* The batches of a generation are numbered without holes, each begins where the one before it ended, and each
   hash is that of its row. A new generation goes on where the last one stopped, unless a gap says why not.
3. *Arrived.* The records of each range are counted by reading them; what was deleted is no longer provable.
4. *Failed.* Each batch has as many distinct error records as it has counted failures.
5. *Deep.* The delivery ids found in a sink, put to the batches whose offsets give them, add up to the digests.
"""
