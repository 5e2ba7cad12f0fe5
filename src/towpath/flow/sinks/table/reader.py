"""Reading back what tables hold, for the audit: delivery ids and versions, never documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.flow.sinks.sink import FoundDelivery, SinkReach, SinkReader
from towpath.flow.sinks.table.rows import sink_errors
from towpath.flow.sinks.table.sink import TableSink
from towpath.flow.sinks.template import is_of

if TYPE_CHECKING:
    from towpath.db.tables.model import Tables


NEWEST_ONLY = "the newest record of a key takes the place of the older ones"


@dataclass
class TableReader(SinkReader):
    """The rows of one table, or of all that the name with its fields may stand for."""

    sink: TableSink
    tables: Tables
    why_part = NEWEST_ONLY

    def __post_init__(self) -> None:
        self.reach = SinkReach.PART if self.sink.shape.is_upsert else SinkReach.ALL

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
