"""What an operator with state does, apart from Spark: says by what key records belong together, and decides.

A tick is a record in the re-entry topic which says that something of a shard is due. The driver appends ticks when it
is time. They are read, counted, delivered and audited as all records are, so what happens when time passes has the
guarantee of its flow. A tick more than needed finds nothing due, and is filtered.

`KeyState` is what a step with state keeps of one key, and when something of it is due. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest
from typing import Any, NamedTuple, Protocol, runtime_checkable

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from towpath.flow.graph.stateful_nodes import (
    FieldPart,
    HeaderPart,
    KeyPart,
    RecordPart,
    document_of,
    field_of,
    whole_number,
)
from towpath.flow.records.reentry import CORRELATION, INPUT_OFFSET, SHARD, STAGE, TICK, said_by
from towpath.flow.worker.records import RecordColumns, RecordVerdict
from towpath.log.record import Headers, NewRecord

ShardState = dict[bytes, Any]  # by key; what msgpack can hold
MOST_DUE = 64  # times of a shard that are told at once: so many ticks it can get before it tells again

# Header: the key whose wake-up has failed. A replay wakes that key alone. It is the record's own, so it comes back.
WOKEN = "woken-key"
EXPIRY_PARTS = 10  # what expires is looked for so many times while it would take to
LEAST_EXPIRY_MS = 1_000


class StateKeeper(Protocol):
    """One rule that needs state. It goes to the workers, and must give the same each time."""

    def keys(self, records: pa.RecordBatch) -> list[bytes | None]:
        """For each record the key whose state it needs; None: it passes. A tick is of no key."""

    def decide(
        self, records: pa.Table, keys: Sequence[bytes | None], state: ShardState, now_ms: int
    ) -> list[RecordVerdict | None]:
        """What becomes of each record of a shard, in their order; the state is changed in place.

        `now_ms` is the time of the batch. None: nothing is said, and what was said before stays.
        """


@runtime_checkable
class TimedKeeper(Protocol):
    """A keeper for which something is to happen when time has passed, also without input."""

    @property
    def is_timed(self) -> bool:
        """Whether there is anything of that kind, as it is declared. Ticks may come though there is not, any more."""

    def due(self, state: ShardState) -> list[int]:
        """When something of the shard is due, in ms since 1970, the earliest first, at most `MOST_DUE`.

        For each time one tick comes, or more: a tick too many is no harm.
        """

    def wake(self, ticks: Sequence[Tick], state: ShardState, now_ms: int) -> list[RecordVerdict]:
        """What becomes of each tick, after all records of the batch; the state is changed in place.

        One tick serves one thing that is due, the earliest first. If nothing is due it has given nothing. Every verdict
        names its source (`by`), or the tick is taken for one that nobody knows.
        """


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
        read = RecordColumns.of_batch(batch)
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


class KeyState(NamedTuple):
    """The state as text, when it was last touched, and its alarm.

    `parked_ms`: the alarm was due then and its function has failed; it rings no more by itself, its replay may.
    """

    touched_ms: int
    text: bytes
    due_ms: int | None = None
    parked_ms: int | None = None

    @classmethod
    def of(cls, value: Any) -> KeyState | None:
        return None if value is None else cls(*value)

    def to_value(self) -> list[Any]:
        end = 4 if self.parked_ms is not None else 3 if self.due_ms is not None else 2
        return list(self[:end])

    @property
    def is_empty(self) -> bool:
        return self.text == b"{}" and self.due_ms is None and self.parked_ms is None

    def expires_ms(self, expire_ms: int) -> int | None:
        """When it is forgotten; None: not before it was woken, be it by a replay."""
        is_to_wake = self.due_ms is not None or self.parked_ms is not None
        return None if is_to_wake else self.touched_ms + expire_ms


def put(state: ShardState, key: bytes, kept: KeyState) -> None:
    """Keep it, unless there is nothing to keep."""
    if kept.is_empty:
        state.pop(key, None)
    else:
        state[key] = kept.to_value()


def forget_expired(state: ShardState, expire_ms: int, now_ms: int) -> None:
    for key, value in list(state.items()):
        expires_ms = KeyState(*value).expires_ms(expire_ms)
        if expires_ms is not None and expires_ms <= now_ms:
            del state[key]


def without_alarms(state: ShardState) -> None:
    """Nobody is to be woken any more: alarms of before would ring, and keep their keys, for ever."""
    for key, value in [(key, value) for key, value in state.items() if len(value) > 2]:
        put(state, key, KeyState(*value[:2]))


def due_times(state: ShardState, expire_ms: int | None) -> list[int]:
    """When the shard wants a tick: one for each alarm, and one for all that expire.

    That one comes late, by a tenth of the time at most, so that keys are forgotten many at a time.
    """
    every = [KeyState(*value) for value in state.values()]
    alarms = nsmallest(MOST_DUE - 1, (kept.due_ms for kept in every if kept.due_ms is not None))
    if expire_ms is None:
        return alarms
    expiring = [time for kept in every if (time := kept.expires_ms(expire_ms)) is not None]
    return sorted([*alarms, rounded_up(min(expiring), expire_ms)]) if expiring else alarms


def rounded_up(time_ms: int, wait_ms: int) -> int:
    """A time at which to look for what has expired: seldom enough, compared with how long it takes to expire."""
    grain = max(LEAST_EXPIRY_MS, wait_ms // EXPIRY_PARTS)
    return -(-time_ms // grain) * grain


class RecordPartColumns:
    """Parts of the records of an Arrow table, as bytes; None where a record has no such part."""

    def __init__(self, records: pa.Table | pa.RecordBatch) -> None:
        self._records = records

    def of(self, part: RecordPart) -> list[bytes | None]:
        match part:
            case KeyPart():
                return self._column("key").to_pylist()  # type: ignore[no-any-return]
            case HeaderPart(name):
                return self._headers(name)
            case FieldPart(names):
                return [field_of(document, names) for document in self._documents]

    def numbers(self, part: RecordPart) -> list[int | None]:
        return [whole_number(text) for text in self.of(part)]

    def _column(self, name: str) -> pa.Array:
        column = self._records.column(name)
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    @cached_property
    def _documents(self) -> list[Any]:
        return [document_of(value) for value in self._column("value").to_pylist()]

    def _headers(self, name: str) -> list[bytes | None]:
        column = self._column("headers")
        found: list[bytes | None] = [None] * len(column)
        all_headers = column.flatten()
        wanted = pc.indices_nonzero(pc.fill_null(pc.equal(all_headers.field("key"), name), False))
        owners = pc.list_parent_indices(column).take(wanted).to_pylist()
        for owner, value in zip(owners, all_headers.field("value").take(wanted).to_pylist(), strict=True):
            found[owner] = value
        return found
