"""Data sets: their states and moves, the row of one, and the tables `data_set` and `data_set_parent`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from towpath.core.clock import to_datetime
from towpath.db import Database, Queries, Query, Transaction
from towpath.db.database import Row, storable
from towpath.errors import DataSetInUse, IllegalDataSetMove, UnknownDataSet


class DataSetState(StrEnum):
    """How much of a data set is there."""

    MAKING = "making"  # some of it, perhaps: somebody is at it, or has died at it
    READY = "ready"  # all of it
    DELETING = "deleting"  # perhaps some of it is left: nobody may begin to use it
    DELETED = "deleted"  # nothing; the row says what it was


class DataSetMove(StrEnum):
    """What can happen to a data set. The value is the label of its arrow in a chart."""

    FINISH = "finished"
    DELETE = "deletion begun"
    REMOVE = "removed"
    REPLACE = "replaced"  # another one is ready in its place


@dataclass(frozen=True, slots=True)
class DataSetArrow:
    """One move: from which states, to which."""

    sources: tuple[DataSetState, ...]
    target: DataSetState


_MAKING, _READY, _DELETING, _DELETED = DataSetState

MOVES: dict[DataSetMove, DataSetArrow] = {
    DataSetMove.FINISH: DataSetArrow((_MAKING,), _READY),
    DataSetMove.DELETE: DataSetArrow((_MAKING, _READY), _DELETING),
    DataSetMove.REMOVE: DataSetArrow((_DELETING,), _DELETED),
    DataSetMove.REPLACE: DataSetArrow((_READY,), _DELETED),
}


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set that a run has made, or is making."""

    seq: int
    id: str
    kind: str
    subject: str
    origin: str
    place: str
    state: DataSetState
    records: int | None
    bytes: int | None
    facts: Mapping[str, Any]
    reason: str | None
    begun_us: int
    ready_us: int | None
    deleted_us: int | None

    @property
    def is_ready(self) -> bool:
        return self.state is DataSetState.READY

    @property
    def begun_at(self) -> datetime:
        return to_datetime(self.begun_us)

    @property
    def ready_at(self) -> datetime | None:
        return None if self.ready_us is None else to_datetime(self.ready_us)

    @property
    def deleted_at(self) -> datetime | None:
        return None if self.deleted_us is None else to_datetime(self.deleted_us)

    @classmethod
    def from_row(cls, row: Row) -> DataSet:
        seq, id, kind, subject, origin, place, state, records, bytes, facts, *rest = row
        return cls(seq, id, kind, subject, origin, place, DataSetState(state), records, bytes, json.loads(facts), *rest)


@dataclass(frozen=True, slots=True)
class Lineage:
    """A data set, what it was made from, and what was made from it; oldest first."""

    data_set: DataSet
    parents: tuple[DataSet, ...]
    children: tuple[DataSet, ...]


class DataSetStore:
    """Reads and moves data sets inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.catalog.data_sets", "data_sets", database.dialect)

    def begin(
        self, tx: Transaction, *, id: str, kind: str, subject: str, origin: str, place: str, parents: Iterable[str]
    ) -> tuple[DataSet, bool]:
        """The data set of that id, and whether it is new. A parent that is not ready is refused."""
        params = {"id": id, "kind": kind, "subject": storable(subject), "origin": storable(origin), "place": place}
        made = tx.rows(self._sql["begin_data_set"], params)
        if not made:
            return self.locked(tx, id), False
        for parent in sorted(set(parents)):  # in one order, so that two never wait for each other in a circle
            found = self.locked(tx, parent)
            if found.state is not DataSetState.READY:
                raise IllegalDataSetMove(parent, found.state, "being made something of", (DataSetState.READY,))
            tx.run(self._sql["add_parent"], {"child": id, "parent": parent})
        return DataSet.from_row(made[0]), True

    def replace(self, tx: Transaction, id: str) -> list[DataSet]:
        """Mark as deleted what is ready in the place of this data set, which replaces it."""
        place = self.locked(tx, id).place
        return [
            self._move(tx, DataSetMove.REPLACE, "replace_data_set", before.id, reason=f"replaced by {id}")
            for before in _data_sets(tx.rows(self._sql["ready_at_place"], {"place": place}))
            if before.id != id
        ]

    def finish(self, tx: Transaction, id: str, records: int, bytes: int, facts: Mapping[str, Any]) -> DataSet:
        """All of it is there."""
        counts = {"records": records, "bytes": bytes, "facts": storable(json.dumps(dict(facts)))}
        return self._move(tx, DataSetMove.FINISH, "finish_data_set", id, **counts)

    def begin_deletion(self, tx: Transaction, id: str, reason: str) -> DataSet:
        """Let nobody begin to use it from now on; `DataSetInUse` while something is being made from it."""
        self.locked(tx, id)  # whoever makes something of it holds the same lock
        users = [each.id for each in self.users(tx, id)]
        if users:
            raise DataSetInUse(id, users)
        return self._move(tx, DataSetMove.DELETE, "begin_deletion", id, reason=storable(reason))

    def end_deletion(self, tx: Transaction, id: str) -> DataSet:
        """Nothing of it is left."""
        return self._move(tx, DataSetMove.REMOVE, "end_deletion", id)

    def read(self, tx: Transaction, id: str) -> DataSet:
        """A data set by its id; raises `UnknownDataSet`."""
        return self._one(tx, self._sql["read_data_set"], id)

    def locked(self, tx: Transaction, id: str) -> DataSet:
        """A data set, locked until the transaction ends; raises `UnknownDataSet`."""
        return self._one(tx, self._sql["lock_data_set"], id)

    def users(self, tx: Transaction, id: str) -> list[DataSet]:
        """The data sets that are being made from it."""
        return _data_sets(tx.rows(self._sql["users"], {"id": id}))

    def parents(self, tx: Transaction, id: str) -> list[DataSet]:
        return _data_sets(tx.rows(self._sql["parents"], {"id": id}))

    def children(self, tx: Transaction, id: str) -> list[DataSet]:
        return _data_sets(tx.rows(self._sql["children"], {"id": id}))

    def page(
        self,
        tx: Transaction,
        *,
        limit: int,
        kind: str | None = None,
        subject: str | None = None,
        state: DataSetState | None = None,
        before: int | None = None,
    ) -> list[DataSet]:
        """The newest first; `before` is the `seq` of the last one of the page before. A subject needs its kind."""
        query = "list_data_sets" if kind is None else "list_data_sets_of_kind"
        params: dict[str, Any] = {"limit": limit, "state": state, "before": before}
        if kind is not None:
            params |= {"kind": kind, "subject": subject}
        return _data_sets(tx.rows(self._sql[query], params))

    def unfinished_deletions(self, tx: Transaction, limit: int) -> list[DataSet]:
        return _data_sets(tx.rows(self._sql["unfinished_deletions"], {"limit": limit}))

    def forget(self, tx: Transaction, before_us: int, limit: int) -> int:
        """Delete rows of data sets that were deleted before that time and that no known one was made from."""
        doomed = [row[0] for row in tx.rows(self._sql["forgettable"], {"before": before_us, "limit": limit})]
        for id in doomed:
            tx.run(self._sql["forget_lineage"], {"id": id})
            tx.run(self._sql["forget_data_set"], {"id": id})
        return len(doomed)

    def _one(self, tx: Transaction, query: Query, id: str) -> DataSet:
        rows = tx.rows(query, {"id": id})
        if not rows:
            raise UnknownDataSet(id)
        return DataSet.from_row(rows[0])

    def _move(self, tx: Transaction, move: DataSetMove, query: str, id: str, **params: Any) -> DataSet:
        rows = tx.rows(self._sql[query], {"id": id, **params})
        if not rows:
            raise IllegalDataSetMove(id, self.read(tx, id).state, f"being {move.value}", MOVES[move].sources)
        return DataSet.from_row(rows[0])


def _data_sets(rows: Sequence[Row]) -> list[DataSet]:
    return [DataSet.from_row(row) for row in rows]
