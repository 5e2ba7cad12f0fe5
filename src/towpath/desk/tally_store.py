"""The table `desk_tally`: how many cases each group has in each state, kept in step with the cases."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from towpath.db import Database, Queries, Transaction
from towpath.desk.case_state import CaseState

Tally = Counter[CaseState]
Changes = Counter[tuple[int, CaseState]]  # by group and state


class TallyStore:
    """Reads and changes tallies inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk", "tallies", database.dialect)

    def add(self, tx: Transaction, changes: Mapping[tuple[int, CaseState], int]) -> None:
        """Groups have so many more or fewer; in one order, so that two never wait for each other in a circle."""
        wanted = sorted((key, more) for key, more in changes.items() if more)
        if not wanted:
            return
        groups, states = zip(*(key for key, _ in wanted), strict=True)
        named = {"groups": json.dumps(sorted({*groups})), "states": json.dumps(sorted({*states}))}
        there = {(group, state) for group, state in tx.rows(self._sql["lock_tallies"], named)}
        if missing := [key for key, _ in wanted if key not in there]:
            tx.run(self._sql["make_tallies"], {"rows": json.dumps(missing)})
        rows = [(group, state, more) for (group, state), more in wanted]
        tx.run(self._sql["add_to_tallies"], {"rows": json.dumps(rows)})

    def of(self, tx: Transaction, groups: Collection[int]) -> dict[int, Tally]:
        """By group; one that has no cases is not in it."""
        found: dict[int, Tally] = defaultdict(Counter)
        for group, state, cases in tx.rows(self._sql["tallies"], {"groups": json.dumps(sorted(groups))}):
            if cases:
                found[group][CaseState(state)] = cases
        return dict(found)

    def count(self, tx: Transaction, flow: str | None, states: Collection[CaseState]) -> int:
        """How many cases a flow, or all of them, have in some states."""
        params = {"flow": flow, "states": json.dumps(sorted(states))}
        return int(tx.rows(self._sql["count_by_tallies"], params)[0][0])
