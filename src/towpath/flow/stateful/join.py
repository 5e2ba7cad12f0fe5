"""Joins by position, in the workers: the k-th record of each input together.

A record that cannot be read has its place in the row all the same: its slot stays open until its replay fills it, and
those behind it are joined meanwhile. Where waiting has an end, a slot leaves as a whole when the first that came to it
has waited long enough; what comes later is counted among those that still wait. `Slots` is pure: what waits in, a
record in, a full slot out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, nsmallest
from itertools import chain, islice, zip_longest
from typing import Any, NamedTuple, Self

import orjson
import pyarrow as pa

from towpath.flow.delivery.places import RecordPlace
from towpath.flow.documents.reader import Unreadable, read_document
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.graph.nodes import Source
from towpath.flow.graph.stateful_nodes import Join, document_of
from towpath.flow.records.reentry import STAGE, TICK, first_reading, said_by
from towpath.flow.stateful.keeper import MOST_DUE, RecordPartColumns, ShardState, Tick
from towpath.flow.worker.records import VERDICT, RecordColumns, RecordVerdict, is_settled
from towpath.log.record import Headers

JOINED = "joined-from"  # header: topic, partition and offset of all records of a joined document, as JSON
WHOLE_TOPIC = b""


@dataclass(frozen=True, slots=True)
class JoinKeeper:
    """Keeps what waits in one join of a stage.

    `reentry` is the topic of what comes back, of which the stage takes what is its own.
    """

    source: Source
    join: Join
    stage: str
    reentry: str
    max_bytes: int

    def keys(self, records: pa.RecordBatch) -> list[bytes | None]:
        topics = records.column("topic").to_pylist()
        keys = [WHOLE_TOPIC] * len(topics) if self.join.key is None else RecordPartColumns(records).of(self.join.key)
        mine = {*self.join.places, self.reentry}
        return [key if topic in mine else None for key, topic in zip(keys, topics, strict=True)]

    def decide(
        self, records: pa.Table, keys: Sequence[bytes | None], state: ShardState, now_ms: int
    ) -> list[RecordVerdict | None]:
        [batch] = records.to_batches()
        read, settled = RecordColumns.of_batch(batch), records.column(VERDICT).to_pylist()
        touched = set(keys)
        slots = {key: Slots.of(len(self.join.inputs), value) for key, value in state.items() if key in touched}
        said: list[RecordVerdict | None] = [None] * len(read)
        for at, key in enumerate(keys):
            coordinates = None if is_settled(settled[at]) else self._coordinates(read, at)
            if coordinates is None:
                continue
            if read.topics[at] == self.reentry and self._was_joined(read.headers(at), coordinates):
                said[at] = RecordVerdict(was_read=True)  # it goes on as it is
                continue
            if key is None:
                why = f"the record has no {self.join.key}, by which its partner is known"
                said[at] = RecordVerdict(failure=self._failed("NoKey", why))
                continue
            waiting = slots.setdefault(key, Slots.of(len(self.join.inputs)))
            said[at] = self._joined(SlotEntry(*coordinates, read.values[at], now_ms), waiting, read.topics[at])
        for key, waiting in slots.items():
            put_slots(state, key, waiting)
        return said

    def _coordinates(self, records: RecordColumns, at: int) -> tuple[str, int, int] | None:
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
        """Whether what comes back has failed behind the join."""
        place = self.join.places[coordinates[0]]
        return joined_from(headers)[place : place + 1] == [[*coordinates]]

    def _joined(self, entry: SlotEntry, waiting: Slots, read_from: str) -> RecordVerdict | None:
        """None: it goes on as it is, to fail where it is read. What comes back has its place, or is new."""
        is_good = self._is_document(entry.value)
        known = waiting.find(entry.coordinates) if read_from == self.reentry else None
        if read_from == self.reentry and not is_good:
            return None
        if known is not None and known.value is not None:
            return RecordVerdict(RecordPlace.DUPLICATE)  # it came back twice
        if known is not None:
            slot = waiting.fill(entry._replace(since_ms=known.since_ms))
        else:
            place = self.join.places[entry.topic]
            slot = waiting.add(place, entry if is_good else entry._replace(value=None))
            if not is_good:
                return None
        return RecordVerdict(RecordPlace.JOINING) if slot is None else self._completed(slot)

    # When waiting has an end

    @property
    def is_timed(self) -> bool:
        return self.join.wait_s is not None

    def due(self, state: ShardState) -> list[int]:
        if not self.is_timed:
            return []
        waiting = (waiting_since(value, MOST_DUE) for value in state.values())
        return [since_ms + self._wait_ms for since_ms in nsmallest(MOST_DUE, chain.from_iterable(waiting))]

    def wake(self, ticks: Sequence[Tick], state: ShardState, now_ms: int) -> list[RecordVerdict]:
        due = [(waiting_since(value, 1)[0], key) for key, value in state.items()] if ticks and self.is_timed else []
        heapify(due)
        return [self._woken(tick, due, state, now_ms - self._wait_ms) for tick in ticks]

    def _woken(self, tick: Tick, due: list[tuple[int, bytes]], state: ShardState, latest_ms: int) -> RecordVerdict:
        if any(name == JOINED for name, _ in tick.headers):
            return RecordVerdict(by=self.source.name, was_read=True)  # it comes back, with the document that has failed
        while due and due[0][0] <= latest_ms:
            _, key = heappop(due)
            slots = Slots.of(len(self.join.inputs), state[key])
            slot = slots.leave(latest_ms)
            put_slots(state, key, slots)
            if key in state:
                heappush(due, (waiting_since(state[key], 1)[0], key))
            if slot is not None:
                return self._unmatched(slot)
        return RecordVerdict(given=[], by=self.source.name)

    def _unmatched(self, slot: Sequence[SlotEntry | None]) -> RecordVerdict:
        left = sum(entry is not None for entry in slot)
        missing = [name for name, entry in zip(self.join.names, slot, strict=True) if entry is None]
        to = RecordPlace.AGGREGATED if self.join.unmatched == "deliver" else RecordPlace.UNMATCHED
        verdict = self._document(slot)._replace(
            moves={RecordPlace.JOINING.value: -left, to.value: left}, by=self.source.name
        )
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

    def _completed(self, slot: Sequence[SlotEntry]) -> RecordVerdict:
        """All but the one that has completed it have waited until now."""
        moves = {RecordPlace.JOINING.value: 1 - len(slot), RecordPlace.AGGREGATED.value: len(slot) - 1}
        return self._document(slot)._replace(moves=moves)

    def _document(self, slot: Sequence[SlotEntry | None]) -> RecordVerdict:
        """The texts put together as they are; null for what is missing."""
        parts = [
            orjson.dumps(name) + b": " + (b"null" if entry is None else entry.value or b"")
            for name, entry in zip(self.join.names, slot, strict=True)
        ]
        joined = orjson.dumps([entry and entry.coordinates for entry in slot])
        return RecordVerdict(value=b"{" + b", ".join(parts) + b"}", header=(JOINED, joined), was_read=True)

    def _failed(self, name: str, message: str) -> RecordFailure:
        return RecordFailure(ErrorCode.NOT_VALID, self.source.name, name, message)


def joined_from(headers: Headers) -> list[Any]:
    """What the newest header `JOINED` says; nothing where there is none. A sender may have one of that name too."""
    found = document_of(next((value for name, value in reversed(headers) if name == JOINED), None))
    return found if isinstance(found, list) else []


class Slots:
    """What waits of one key: a queue for each input, and slots in which one is missing because it failed."""

    def __init__(self, queues: Sequence[Sequence[Any]], open: Sequence[Sequence[Any]] = ()) -> None:
        self.queues = [deque(SlotEntry(*entry) for entry in queue) for queue in queues]
        self.open = [[SlotEntry(*entry) for entry in slot] for slot in open]

    @classmethod
    def of(cls, inputs: int, value: Any = None) -> Self:
        return cls([[] for _ in range(inputs)]) if value is None else cls(*value)

    def to_value(self) -> list[Any]:
        return [[list(queue) for queue in self.queues], self.open]

    @property
    def is_empty(self) -> bool:
        return not self.open and not any(self.queues)

    def add(self, input: int, entry: SlotEntry) -> list[SlotEntry] | None:
        """The slot that is full by it; None: it waits."""
        self.queues[input].append(entry)
        if not all(self.queues):
            return None
        slot = [queue.popleft() for queue in self.queues]
        if _is_full(slot):
            return slot
        self.open.append(slot)
        return None

    def find(self, coordinates: tuple[str, int, int]) -> SlotEntry | None:
        """What is kept of this record: itself, or the place of one that failed."""
        entries = chain(*self.queues, *self.open)
        return next((entry for entry in entries if entry.coordinates == coordinates), None)

    def leave(self, latest_ms: int) -> list[SlotEntry | None] | None:
        """Take out the slot that has waited longest, if that is since `latest_ms` or longer; None for what is missing.

        A slot in which all have failed leaves too; there is nothing to tell of it.
        """
        while (since_ms := min(self._since(), default=None)) is not None and since_ms <= latest_ms:
            at = next((at for at, slot in enumerate(self.open) if _since_of(slot) == since_ms), None)
            slot = [queue.popleft() if queue else None for queue in self.queues] if at is None else self.open.pop(at)
            good = [entry if entry is not None and entry.value is not None else None for entry in slot]
            if any(good):
                return good
        return None

    def _since(self) -> Iterator[int]:
        """Of each slot that may leave next."""
        yield from map(_since_of, self.open)
        yield from (queue[0].since_ms for queue in self.queues if queue)

    def fill(self, entry: SlotEntry) -> list[SlotEntry] | None:
        """Put the replay of a record that failed in its place; the slot that is full by it, or None."""
        for queue in self.queues:
            for at, waiting in enumerate(queue):
                if waiting.coordinates == entry.coordinates:
                    queue[at] = entry
                    return None
        for number, slot in enumerate(self.open):
            for at, waiting in enumerate(slot):
                if waiting.coordinates == entry.coordinates:
                    slot[at] = entry
                    return self.open.pop(number) if _is_full(slot) else None
        return None


class SlotEntry(NamedTuple):
    """A record that waits, since the time of its batch. Without a value it is the place of one that failed."""

    topic: str
    partition: int
    offset: int
    value: bytes | None
    since_ms: int = 0

    @property
    def coordinates(self) -> tuple[str, int, int]:
        return self[:3]


def waiting_since(value: Any, most: int) -> list[int]:
    """Since when the slots of a key wait that have waited longest, from the value that is kept."""
    queues, open = value
    heads = [[_since_ms(entry) for entry in islice(queue, most)] for queue in queues]
    by_place = [min(each for each in place if each is not None) for place in zip_longest(*heads)]
    return nsmallest(most, [*by_place, *(min(map(_since_ms, slot)) for slot in open)])


def put_slots(state: ShardState, key: bytes, slots: Slots) -> None:
    """Keep what waits, unless nothing does."""
    if slots.is_empty:
        state.pop(key, None)
    else:
        state[key] = slots.to_value()


def _since_ms(entry: Sequence[Any]) -> int:
    """What was kept by a version that noted no time has waited long enough."""
    since_ms: int = entry[4] if len(entry) > 4 else 0
    return since_ms


def _since_of(slot: Sequence[SlotEntry]) -> int:
    return min(entry.since_ms for entry in slot)


def _is_full(slot: Sequence[SlotEntry]) -> bool:
    return all(entry.value is not None for entry in slot)
