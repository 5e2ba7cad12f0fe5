"""Records of a key in their order: what fails behind one that is not settled is parked behind it, and goes on after it.

Each parked case names the one before it. When that one is settled the next goes back into the flow, and only that one:
those behind it wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from towpath.db import Database, Queries, Transaction
from towpath.desk.case_state import CaseState
from towpath.desk.case_store import CaseStore
from towpath.desk.sending import Sends

Key = tuple[str, str]  # stage, and the hash of a key


class Parking:
    """Given a transaction by the caller."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk", "parking", database.dialect)
        self._cases = CaseStore(database)
        self._sends = Sends(database)

    def behind(self, tx: Transaction, flow: str, key_hashes: Collection[str]) -> dict[Key, str]:
        """The last case of each of these keys that is not settled: what fails now is parked behind it."""
        if not key_hashes:
            return {}
        rows = tx.rows(self._sql["last_of_keys"], {"flow": flow, "keys": json.dumps(sorted(set(key_hashes)))})
        return {(stage, key_hash): str(id) for stage, key_hash, id in rows}

    def release(self, tx: Transaction, settled: Collection[str]) -> list[str]:
        """These are settled, or ignored: what is parked behind them goes on; returns that."""
        rows = tx.rows(self._sql["parked_behind"], {"ids": json.dumps(list(settled))}) if settled else []
        first: list[str] = []
        for id, before in rows:
            if before is None:
                first.append(str(id))
            else:  # a person has settled one in the middle
                tx.rows(self._sql["stay_behind"], {"id": str(id), "behind": str(before)})
        cases = list(self._cases.lock(tx, first).values()) if first else []
        why = "the record of its key before it is settled"
        return self._sends.replay(tx, cases, delay_s=None, frm=[CaseState.PARKED], why=why)
