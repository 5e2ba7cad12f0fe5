"""The table `flow_held_key`: keys of which a record lies on the desk, where a flow keeps the records of a key in order.

The stage counts what it sends to the error topic, in the transaction that commits the batch; the desk counts what is
done with, in the transaction that settles the case. A key is free when both are equal, and only the stage frees it,
between two batches: so nothing that it has sent can be on its way to the desk unseen.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

from towpath.db import Database, Queries, Transaction

DIGITS = 32


def hash_of(key: bytes) -> str:
    """What stands for a key; `ordering.HASH` is the same in Spark."""
    return hashlib.sha256(key).hexdigest()[:DIGITS]


class HeldKeys:
    """Counts inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.flow", "held_keys", database.dialect)

    def send(self, tx: Transaction, flow: str, stage: str, keys: Iterable[bytes]) -> None:
        """Records of these keys go to the error topic, one for each time that a key is named."""
        for key_hash, count in sorted(Counter(map(hash_of, keys)).items()):
            params = {"flow": flow, "stage": stage, "key_hash": key_hash, "count": count}
            tx.run(self._sql["send"], params)

    def settle(self, tx: Transaction, cases: Iterable[tuple[str, str, str]]) -> None:
        """Records are done with: of each its flow, stage and hash of its key."""
        for (flow, stage, key_hash), count in sorted(Counter(cases).items()):
            params = {"flow": flow, "stage": stage, "key_hash": key_hash, "count": count}
            tx.run(self._sql["settle"], params)

    def free(self, tx: Transaction, flow: str, stage: str) -> frozenset[str]:
        """Let go of keys of which nothing is left on the desk, and return the others."""
        which = {"flow": flow, "stage": stage}
        tx.run(self._sql["free"], which)
        return frozenset(row[0] for row in tx.rows(self._sql["held"], which))
