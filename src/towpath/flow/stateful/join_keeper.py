"""Joins by position, in the workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson
import pyarrow as pa

from towpath.flow.codes import ErrorCode
from towpath.flow.failure import Failure
from towpath.flow.nodes import Source
from towpath.flow.place import Place
from towpath.flow.reentry_record import STAGE, first_reading, said_by
from towpath.flow.stateful.join import Join
from towpath.flow.stateful.keeper import ShardState
from towpath.flow.stateful.parts import Parts
from towpath.flow.stateful.slots import Entry, Slots
from towpath.flow.stateful.verdict import VERDICT, Verdict, is_settled
from towpath.flow.text.reading import Unreadable, read_document
from towpath.flow.worker.records import Records

JOINED = "joined-from"  # header: topic, partition and offset of all records of a joined document, as JSON
WHOLE_TOPIC = b""


@dataclass(frozen=True, slots=True)
class JoinKeeper:
    """One join of a stage. `reentry`: the topic of what comes back, of which the stage takes what is its own."""

    source: Source
    join: Join
    stage: str
    reentry: str
    max_bytes: int

    def keys(self, records: pa.RecordBatch) -> list[bytes | None]:
        topics = records.column("topic").to_pylist()
        keys = [WHOLE_TOPIC] * len(topics) if self.join.key is None else Parts(records).of(self.join.key)
        mine = {*self.join.places, self.reentry}
        return [key if topic in mine else None for key, topic in zip(keys, topics, strict=True)]

    def decide(
        self, records: pa.Table, keys: Sequence[bytes | None], state: ShardState, now_ms: int
    ) -> list[Verdict | None]:
        [batch] = records.to_batches()
        read, settled = Records.of_batch(batch), records.column(VERDICT).to_pylist()
        slots = {key: Slots.of(len(self.join.inputs), value) for key, value in state.items() if key in set(keys)}
        said: list[Verdict | None] = [None] * len(read)
        for at, key in enumerate(keys):
            if is_settled(settled[at]):
                continue
            if key is not None:
                waiting = slots.setdefault(key, Slots.of(len(self.join.inputs)))
                said[at] = self._joined(read, at, waiting)
            elif read.topics[at] in self.join.places:
                said[at] = Verdict(failure=self._no_key())
        for key, waiting in slots.items():
            if waiting.is_empty:
                state.pop(key, None)
            else:
                state[key] = waiting.to_value()
        return said

    def _joined(self, records: Records, at: int, waiting: Slots) -> Verdict | None:
        """None: it goes on as it is, to fail where it is read, or because it was joined before and comes back."""
        topic, partition, offset = records.coordinates(at)
        value = records.values[at]
        is_good = self._is_document(value)
        if topic != self.reentry:
            slot = waiting.add(self.join.places[topic], Entry(topic, partition, offset, value if is_good else None))
            if not is_good:
                return None
            return self._completed(slot) if slot is not None else Verdict(Place.JOINING)
        said = said_by(records.headers(at))
        if said.get(STAGE) != self.stage or not is_good:
            return None
        try:
            first = first_reading(said)
        except (KeyError, ValueError):
            return None
        coordinates = (first.topic, first.partition, first.offset)
        if not waiting.is_missing(coordinates):
            return None
        slot = waiting.fill(Entry(*coordinates, value))
        return self._completed(slot) if slot is not None else Verdict(Place.JOINING)

    def _is_document(self, value: bytes | None) -> bool:
        try:
            read_document(value, max_bytes=self.max_bytes, duplicates=self.source.duplicates)
        except Unreadable:
            return False
        return True

    def _completed(self, slot: Sequence[Entry]) -> Verdict:
        """All but the one that has completed it have waited until now."""
        parts = [
            orjson.dumps(name) + b": " + (entry.value or b"") for name, entry in zip(self.join.names, slot, strict=True)
        ]
        moves = {Place.JOINING.value: 1 - len(slot), Place.AGGREGATED.value: len(slot) - 1}
        joined = orjson.dumps([entry.coordinates for entry in slot])
        return Verdict(moves=moves, value=b"{" + b", ".join(parts) + b"}", header=(JOINED, joined))

    def _no_key(self) -> Failure:
        message = f"the record has no {self.join.key}, by which its partner is known"
        return Failure(ErrorCode.NOT_VALID, self.source.name, "NoKey", message)
