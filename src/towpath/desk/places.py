"""Where the records are that failed in a flow, for the audit: as many as the cases say, each in one place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection

from towpath.db import Database, Queries, Transaction
from towpath.desk.case import ERROR, STRAY
from towpath.desk.case_state import CaseState
from towpath.desk.case_store import is_case_id
from towpath.desk.position_store import PositionStore, Reading
from towpath.flow.place import Holdings, Place

FORGOTTEN = ""  # stands for the batch of what was deleted


class DeskPlaces:
    """Fits `Places`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.desk", "places", database.dialect)
        self._positions = PositionStore(database)

    def holdings(self, tx: Transaction, flow: str) -> Holdings | None:
        read = [each for each in self._positions.of_flow(tx, flow) if each.reading is Reading.ERRORS]
        if not read:
            return None
        named = {"flow": flow}
        places: Counter[tuple[str, Place]] = Counter()
        for hash, state, count in tx.rows(self._sql["places"], named):
            places[hash, Place(state)] += count
        strays, attempts = self._count(tx, "strays", flow), self._count(tx, "kept_attempts", flow)
        for kind, state, cases, tried in tx.rows(self._sql["forgotten"], named):
            attempts += tried
            strays += cases if kind == STRAY else 0
            if kind == ERROR and state != CaseState.RESOLVED:
                places[FORGOTTEN, Place(state)] += cases
        return Holdings(
            self._database.now(),
            {(each.topic_id, each.partition): each.position for each in read},
            sum(each.records for each in read),
            sum(each.repeats for each in read),
            strays,
            attempts,
            dict(places),
            {str(id): (hash, attempt) for id, hash, attempt in tx.rows(self._sql["sent"], named)},
        )

    def known(self, correlations: Collection[str]) -> set[str]:
        """When cases were ever deleted, an id that none has may have been one of theirs."""
        ids = [each for each in correlations if is_case_id(each)]
        if not ids:
            return set()
        with self._database.read() as tx:
            if tx.rows(self._sql["has_forgotten"], {})[0][0]:
                return set(ids)
            return {str(id) for (id,) in tx.rows(self._sql["known"], {"ids": json.dumps(ids)})}

    def resolved(self, correlations: Collection[str], until_us: int) -> set[str]:
        ids = json.dumps([each for each in correlations if is_case_id(each)])
        with self._database.read() as tx:
            return {str(id) for (id,) in tx.rows(self._sql["resolved"], {"ids": ids, "until": until_us})}

    def _count(self, tx: Transaction, query: str, flow: str) -> int:
        return int(tx.rows(self._sql[query], {"flow": flow})[0][0])
