"""One data set as its row has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from towpath.catalog.state import DataSetState
from towpath.clock import to_datetime
from towpath.db.database import Row


@dataclass(frozen=True, slots=True)
class DataSet:
    """What a run has made, or is making."""

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
        values: list[Any] = list(row)
        values[6] = DataSetState(values[6])
        values[9] = json.loads(values[9])
        return cls(*values)


@dataclass(frozen=True, slots=True)
class Lineage:
    """A data set, what it was made from, and what was made from it; oldest first."""

    data_set: DataSet
    parents: tuple[DataSet, ...]
    children: tuple[DataSet, ...]
