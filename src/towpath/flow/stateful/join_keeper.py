"""Joins by position, in the workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, nsmallest
from itertools import chain

import orjson
import pyarrow as pa

from towpath.flow.codes import ErrorCode
from towpath.flow.failure import Failure
from towpath.flow.nodes import Source
from towpath.flow.place import Place
from towpath.flow.reentry_record import STAGE, TICK, first_reading, said_by
from towpath.flow.stateful.join import Join
from towpath.flow.stateful.keeper import MOST_DUE, ShardState
from towpath.flow.stateful.parts import Parts
from towpath.flow.stateful.record_part import document_of
from towpath.flow.stateful.slots import Entry, Slots, waiting_since
from towpath.flow.stateful.tick import Tick
from towpath.flow.stateful.verdict import VERDICT, Verdict, is_settled
from towpath.flow.text.reading import Unreadable, read_document
from towpath.flow.worker.records import Records
from towpath.log.record import Headers

JOINED = "joined-from"  # header: topic, partition and offset of all records of a joined document, as JSON
WHOLE_TOPIC = b""
WHY_KEY = "by which its partner is known"


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
        touched = set(keys)
        slots = {key: Slots.of(len(self.join.inputs), value) for key, value in state.items() if key in touched}
        said: list[Verdict | None] = [None] * len(read)
        for at, key in enumerate(keys):
            coordinates = None if is_settled(settled[at]) else self._coordinates(read, at)
            if coordinates is None:
                continue
            if read.topics[at] == self.reentry and self._was_joined(read.headers(at), coordinates):
                said[at] = Verdict(was_read=True)  # it goes on as it is
                continue
            if key is None:
                said[at] = Verdict(failure=self._failed("NoKey", f"the record has no {self.join.key}, {WHY_KEY}"))
                continue
            waiting = slots.setdefault(key, Slots.of(len(self.join.inputs)))
            said[at] = self._joined(Entry(*coordinates, read.values[at], now_ms), waiting, read.topics[at])
        for key, waiting in slots.items():
            put_slots(state, key, waiting)
        return said

    def _coordinates(self, records: Records, at: int) -> tuple[str, int, int] | None:
        """Where a record of an input was read for the first time; None: it is of none."""
        topic = records.topics[at]
        if topic != self.reentry:
            return records.coordinates(at) if topic in self.join.places else None
        said = said_by(records.headers(at))
        if said.get(STAGE) != self.stage or TICK in said:
            return None
        try:
            first = first_reading(said)
        except (KeyError, ValueError):
            return None
        return (first.topic, first.partition, first.offset) if first.topic in self.join.places else None

    def _was_joined(self, headers: Headers, coordinates: tuple[str, int, int]) -> bool:
        """Whether what comes back has failed behind the join. A sender may have a header of that name too."""
        text = next((value for name, value in reversed(headers) if name == JOINED), None)
        joined, place = document_of(text), self.join.places[coordinates[0]]
        return isinstance(joined, list) and joined[place : place + 1] == [[*coordinates]]

    def _joined(self, entry: Entry, waiting: Slots, read_from: str) -> Verdict | None:
        """None: it goes on as it is, to fail where it is read. What comes back has its place, or is new."""
        is_good = self._is_document(entry.value)
        known = waiting.find(entry.coordinates) if read_from == self.reentry else None
        if read_from == self.reentry and not is_good:
            return None
        if known is not None and known.value is not None:
            return Verdict(Place.DUPLICATE)  # it came back twice
        if known is not None:
            slot = waiting.fill(entry._replace(since_ms=known.since_ms))
        else:
            place = self.join.places[entry.topic]
            slot = waiting.add(place, entry if is_good else entry._replace(value=None))
            if not is_good:
                return None
        return Verdict(Place.JOINING) if slot is None else self._completed(slot)

    # When waiting has an end

    @property
    def is_timed(self) -> bool:
        return self.join.wait_s is not None

    def due(self, state: ShardState) -> list[int]:
        if not self.is_timed:
            return []
        waiting = (waiting_since(value, MOST_DUE) for value in state.values())
        return [since_ms + self._wait_ms for since_ms in nsmallest(MOST_DUE, chain.from_iterable(waiting))]

    def wake(self, ticks: Sequence[Tick], state: ShardState, now_ms: int) -> list[Verdict]:
        due = [(waiting_since(value, 1)[0], key) for key, value in state.items()] if ticks and self.is_timed else []
        heapify(due)
        return [self._woken(tick, due, state, now_ms - self._wait_ms) for tick in ticks]

    def _woken(self, tick: Tick, due: list[tuple[int, bytes]], state: ShardState, latest_ms: int) -> Verdict:
        if any(name == JOINED for name, _ in tick.headers):
            return Verdict(by=self.source.name, was_read=True)  # it comes back, with the document that has failed
        while due and due[0][0] <= latest_ms:
            _, key = heappop(due)
            slots = Slots.of(len(self.join.inputs), state[key])
            slot = slots.leave(latest_ms)
            put_slots(state, key, slots)
            if key in state:
                heappush(due, (waiting_since(state[key], 1)[0], key))
            if slot is not None:
                return self._unmatched(slot)
        return Verdict(given=[], by=self.source.name)

    def _unmatched(self, slot: Sequence[Entry | None]) -> Verdict:
        left = sum(entry is not None for entry in slot)
        missing = [name for name, entry in zip(self.join.names, slot, strict=True) if entry is None]
        to = Place.AGGREGATED if self.join.unmatched == "deliver" else Place.UNMATCHED
        verdict = self._document(slot)._replace(moves={Place.JOINING.value: -left, to.value: left}, by=self.source.name)
        if self.join.unmatched == "deliver":
            return verdict
        why = f"has no {', '.join(missing)}, which did not come within {self.join.wait_s:g} s"
        return verdict._replace(failure=self._failed("NoPartner", why))

    @property
    def _wait_ms(self) -> int:
        return round((self.join.wait_s or 0) * 1000)

    def _is_document(self, value: bytes | None) -> bool:
        try:
            read_document(value, max_bytes=self.max_bytes, duplicates=self.source.duplicates)
        except Unreadable:
            return False
        return True

    def _completed(self, slot: Sequence[Entry]) -> Verdict:
        """All but the one that has completed it have waited until now."""
        moves = {Place.JOINING.value: 1 - len(slot), Place.AGGREGATED.value: len(slot) - 1}
        return self._document(slot)._replace(moves=moves)

    def _document(self, slot: Sequence[Entry | None]) -> Verdict:
        """The texts put together as they are; null for what is missing."""
        parts = [
            orjson.dumps(name) + b": " + (b"null" if entry is None else entry.value or b"")
            for name, entry in zip(self.join.names, slot, strict=True)
        ]
        joined = orjson.dumps([entry and entry.coordinates for entry in slot])
        return Verdict(value=b"{" + b", ".join(parts) + b"}", header=(JOINED, joined), was_read=True)

    def _failed(self, name: str, message: str) -> Failure:
        return Failure(ErrorCode.NOT_VALID, self.source.name, name, message)


def put_slots(state: ShardState, key: bytes, slots: Slots) -> None:
    """Keep what waits, unless nothing does."""
    if slots.is_empty:
        state.pop(key, None)
    else:
        state[key] = slots.to_value()
