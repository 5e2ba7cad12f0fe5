"""A tick: a record in the re-entry topic which says that something of a shard is due.

The driver appends them when it is time. They are read, counted, delivered and audited as all records are, so what
happens when time passes has the guarantee of its flow. A tick more than needed finds nothing due, and is filtered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from towpath.flow.reentry_record import CORRELATION, INPUT_OFFSET, SHARD, STAGE, TICK, said_by
from towpath.flow.stateful.record_part import whole_number
from towpath.flow.worker.records import Records
from towpath.log.record import Headers, NewRecord

# Header: the key whose wake-up has failed. A replay wakes that key alone. It is the record's own, so it comes back.
WOKEN = "woken-key"


class Tick(NamedTuple):
    """A tick as an operator gets it. What comes back from the desk has the value with which it has failed."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    shard: int
    value: bytes | None
    headers: Headers

    @property
    def key(self) -> bytes | None:
        """The one key that it is for; None: for what is due first."""
        return next((value for name, value in self.headers if name == WOKEN), None)

    @property
    def is_back(self) -> bool:
        """Whether it comes back from the desk."""
        return any(name in (INPUT_OFFSET, CORRELATION) for name, _ in self.headers)

    @property
    def document(self) -> dict[str, Any] | None:
        """None: it is no document. Somebody has tried to mend it."""
        try:
            found = orjson.loads(self.value or b"")
        except orjson.JSONDecodeError:
            return None
        return found if isinstance(found, dict) else None


def tick_record(stage: str, operator: int, shard: int) -> NewRecord:
    said = {STAGE: stage, TICK: str(operator), SHARD: str(shard)}
    return NewRecord(b"{}", None, tuple((name, text.encode()) for name, text in said.items()))


@dataclass(frozen=True, slots=True)
class Ticks:
    """Finds the ticks of one operator of a stage among records. `shards`: how many it has."""

    stage: str
    reentry: str
    operator: int
    shards: int

    def of(self, records: pa.RecordBatch | pa.Table) -> dict[int, Tick]:
        """By place."""
        back = pc.indices_nonzero(pc.equal(records.column("topic"), self.reentry)).to_pylist()
        if not back:
            return {}
        batch = records if isinstance(records, pa.RecordBatch) else records.combine_chunks().to_batches()[0]
        read = Records.of_batch(batch)
        found = {}
        for at in back:
            headers = read.headers(at)
            shard = self._shard(said_by(headers))
            if shard is not None:
                found[at] = Tick(*read.coordinates(at), read.timestamps_ms[at], shard, read.values[at], headers)
        return found

    def _shard(self, said: Mapping[str, str]) -> int | None:
        if said.get(STAGE) != self.stage or said.get(TICK) != str(self.operator):
            return None
        number = whole_number(said.get(SHARD, "").encode())
        return number if number is not None and 0 <= number < self.shards else None
