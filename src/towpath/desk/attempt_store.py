"""The tables `desk_attempt` and `desk_trace`: every failure of every case. Rows are added with their cases."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from towpath.db import Database, Queries, Transaction
from towpath.desk.attempt import PastAttempt


class AttemptStore:
    """Reads attempts inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk", "attempts", database.dialect)

    def of_case(self, tx: Transaction, case_id: str) -> list[PastAttempt]:
        """The first one first."""
        return [PastAttempt.from_row(row) for row in tx.rows(self._sql["attempts_of"], {"case": case_id})]

    def batches_of(self, tx: Transaction, case_ids: Collection[str]) -> set[tuple[str, str]]:
        """Case and hash of each failure of these."""
        if not case_ids:
            return set()
        return {(str(id), hash) for id, hash in tx.rows(self._sql["batches_of"], _ids(case_ids))}

    def there(self, tx: Transaction, case_ids: Collection[str]) -> set[str]:
        """Those of these ids that cases have."""
        return {str(id) for (id,) in tx.rows(self._sql["there"], _ids(case_ids))} if case_ids else set()

    def keep_traces(self, tx: Transaction, traces: Mapping[str, str]) -> None:
        """By id."""
        if traces:
            tx.run(self._sql["keep_traces"], {"rows": json.dumps(sorted(traces.items()))})

    def set_headers(self, tx: Transaction, headers: Mapping[str, str]) -> None:
        """What cases go back with, by id: outputs may have more of a record by now."""
        if headers:
            tx.run(self._sql["set_headers"], {"rows": json.dumps(sorted(headers.items()))})


def _ids(case_ids: Collection[str]) -> dict[str, str]:
    return {"ids": json.dumps(list(case_ids))}
