"""The core of a join on columns without Spark: records of a batch in, verdicts and state out."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
import pyarrow as pa

from towpath.flow.graph.nodes import Source
from towpath.flow.graph.stateful_nodes import ColumnJoin
from towpath.flow.stateful import field as part
from towpath.flow.stateful.column_join import ColumnJoinKeeper
from towpath.flow.stateful.keeper import ShardState, Tick
from towpath.flow.stateful.operators import JUDGED, ORDER
from towpath.flow.worker.records import RecordVerdict

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REENTRY = "x.reentry"
AT = part("at")


class Row(NamedTuple):
    """One record. A value that is no text is written as JSON."""

    topic: str
    offset: int
    value: Any
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int = 0
    key: bytes | None = None
    partition: int = 0

    @property
    def text(self) -> bytes:
        return self.value if isinstance(self.value, bytes) else json.dumps(self.value).encode()


def order(offset: int, id: Any, at: Any, **more: Any) -> Row:
    return Row("orders", offset, {"id": id, "at": at, "o": offset, **more})


def payment(offset: int, id: Any, at: Any, **more: Any) -> Row:
    return Row("payments", offset, {"id": id, "at": at, "p": offset, **more})


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    cells = [
        (
            row.topic,
            row.partition,
            row.offset,
            EPOCH + timedelta(milliseconds=row.timestamp_ms),
            row.key,
            row.text,
            [{"key": name, "value": value} for name, value in row.headers],
            None,
        )
        for row in rows
    ]
    columns = [pa.array(column, type) for column, type in zip(zip(*cells, strict=True), JUDGED.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=JUDGED).sort_by(ORDER)


@dataclass
class Joining:
    """A join over several batches, with as many shards as told."""

    keeper: ColumnJoinKeeper
    shards: int = 1
    states: dict[int, ShardState] = field(default_factory=dict)
    places: Counter[str] = field(default_factory=Counter)
    left: list[tuple[str, int, RecordVerdict]] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, shards: int = 1, time: Any = AT, max_bytes: int = 1000, **said: Any) -> Joining:
        inputs = (("order", "orders"), ("payment", "payments"))
        join = ColumnJoin.of(inputs, **{"on": part("id"), "time": time, "within_s": 0.01, "late_s": 0, **said})
        source = Source("both", ("orders", "payments"), join=join)
        return cls(ColumnJoinKeeper(source, join, "both-stage", REENTRY, max_bytes), shards)

    def run(self, *rows: Row, watermark: int | None = None) -> list[RecordVerdict | None]:
        """The verdicts in the order of topic, partition and offset, if there is one shard."""
        batch = batch_of(rows)
        keys = self.keeper.keys(batch)
        homes = [crc32(key or b"") % self.shards for key in keys]
        said: list[RecordVerdict | None] = []
        for home in sorted(set(homes)):
            mine = [at for at, each in enumerate(homes) if each == home]
            own, state = [keys[at] for at in mine], self.states.setdefault(home, {})
            said += self._judged(batch.take(pa.array(mine)), own, state, watermark)
        return said

    def _judged(
        self, batch: pa.RecordBatch, keys: list[bytes | None], state: ShardState, watermark: int | None
    ) -> list[RecordVerdict | None]:
        before = copy.deepcopy(state)
        said = self.keeper.judge(batch, keys, state, watermark)
        after = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=ShardState)
        assert self.keeper.judge(batch, keys, before, watermark) == said, "a repeat says something else"
        assert msgspec.msgpack.encode(before) == msgspec.msgpack.encode(state)
        state.clear()
        state.update(after)  # as it comes back from the store
        self._count(said)
        return said

    def tick(self, watermark: int, *headers: tuple[str, bytes], value: bytes = b"{}", shard: int = 0) -> RecordVerdict:
        tick = Tick(REENTRY, 0, 0, 0, shard, value, headers)
        verdict = self.keeper.woken(tick, self.states.setdefault(shard, {}), watermark)
        self._count([verdict], is_tick=True)
        return verdict

    def _count(self, said: Sequence[RecordVerdict | None], *, is_tick: bool = False) -> None:
        for verdict in filter(None, said):
            self.places.update(verdict.moves or {})
            if verdict.place is not None:
                self.places[verdict.place] += 1
            elif verdict.failure is not None:
                self.places[verdict.failure.exception] += 1
            elif not is_tick:
                self.places["loaded" if verdict.given else "filtered"] += 1
            for name, time in (verdict.seen or {}).items():
                self.seen[name] = max(time, self.seen.get(name, time))
            for entry, own in verdict.left or ():
                self.left.append((entry.topic, entry.offset, own))
                self.places[own.failure.exception] += 1

    @property
    def kept(self) -> int:
        return sum(len(side) for state in self.states.values() for _, *sides in state.values() for side in sides)


def pairs(said: Sequence[RecordVerdict | None]) -> list[tuple[Any, Any]]:
    """The offsets of what was joined; None: there was no partner."""
    documents = [document for verdict in said if verdict is not None for document in verdict.given or ()]
    return [((each["order"] or {}).get("o"), (each["payment"] or {}).get("p")) for each in documents]
