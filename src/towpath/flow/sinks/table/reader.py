"""towpath.flow.sinks.table.reader"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from towpath.flow.sinks.sink import Flaw, FoundDelivery, SinkReach
from towpath.flow.sinks.table.rows import sink_errors
from towpath.flow.sinks.table.sink import TableSink
from towpath.flow.sinks.template import is_of

if TYPE_CHECKING:
    from towpath.db.tables.model import Tables


NEWEST_ONLY = "the newest record of a key takes the place of the older ones"


@dataclass(slots=True)
class TableReader:
    """The rows of one table, or of all that the name with its fields may stand for."""

    sink: TableSink
    tables: Tables
    per_batch = False
    is_idempotent = True
    why_part = NEWEST_ONLY
    flaws: list[Flaw] = field(default_factory=list)

    @property
    def reach(self) -> SinkReach:
        return SinkReach.PART if self.sink.shape.is_upsert else SinkReach.ALL

    def delivered(self) -> Iterator[FoundDelivery]:
        with sink_errors(str(self.sink)):
            for name in self._names():
                for id, version in self.tables.scan(name):
                    yield FoundDelivery(bytes(id), f"row of {name} with the version {version}")

    def _names(self) -> list[str]:
        if self.sink.target.is_fixed:
            return [self.sink.target.filler()({})]
        return [name for name in self.tables.names() if is_of(self.sink.target, name)]

    def close(self) -> None:
        self.tables.close()
