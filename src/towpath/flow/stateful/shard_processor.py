"""The operator as Spark calls it in its workers: once for each shard of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from towpath.flow.stateful.column_left import with_left
from towpath.flow.stateful.keeper import Keeper, ShardState, Timed
from towpath.flow.stateful.packets import KEY, PACKET, SHARD, in_order, write_packet
from towpath.flow.stateful.tick import Ticks
from towpath.flow.stateful.verdict import VERDICT, Verdict

NOW = "now_ms"
STATE = "keys binary"

_decoder = msgspec.msgpack.Decoder(dict[bytes, Any])
_encode = msgspec.msgpack.Encoder().encode


class ShardProcessor(StatefulProcessor):
    """Reads the state of a shard, lets the keeper decide, and writes it back."""

    def __init__(self, keeper: Keeper, ticks: Ticks) -> None:
        self._keeper = keeper
        self._ticks = ticks

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("shard", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:
        packets = list(rows)
        records = in_order(row[PACKET] for row in packets)
        kept = self._state.get()
        before = b"" if kept is None else bytes(kept[0])
        state: ShardState = _decoder.decode(before) if before else {}
        judged = self._judged(records, state, packets[0][NOW], key[0])
        after = _encode(state)
        if after != before:
            self._state.update((after,))
        yield Row(**{SHARD: key[0], PACKET: write_packet(judged)})

    def _judged(self, records: pa.Table, state: ShardState, now_ms: int, shard: int) -> pa.Table:
        keys = records.column(KEY).to_pylist()
        said = self._keeper.decide(records, keys, state, now_ms)
        records = records.drop_columns([KEY])
        ticks = self._ticks.of(records) if isinstance(self._keeper, Timed) else {}
        # A tick may be of a flow that had other timers: it makes its shard tell that nothing is due any more.
        if isinstance(self._keeper, Timed) and (ticks or self._keeper.is_timed):
            for at, verdict in zip(ticks, self._keeper.wake([*ticks.values()], state, now_ms), strict=True):
                said[at] = verdict
            self._tell_due(self._keeper.due(state), shard, records, said)
        if not any(verdict is not None for verdict in said):
            return records
        at = records.schema.get_field_index(VERDICT)
        known = records.column(at).to_pylist()
        texts = [old if new is None else new.after(old).encode() for old, new in zip(known, said, strict=True)]
        return with_left(_rewritten(records.set_column(at, VERDICT, pa.array(texts, pa.binary())), said), said)

    def _tell_due(self, due: list[int], shard: int, records: pa.Table, said: list[Verdict | None]) -> None:
        """On the first record of the shard: every record comes to where it is reported."""
        known = records.column(VERDICT)[0].as_py()
        verdict = said[0] or (Verdict() if known is None else Verdict.decode(known))
        said[0] = verdict._replace(due={f"{self._ticks.operator}/{shard}": due, **(verdict.due or {})})

    def close(self) -> None:
        pass


def _rewritten(records: pa.Table, said: Sequence[Verdict | None]) -> pa.Table:
    """The records with the values and headers that were put in place of theirs."""
    places = {at: verdict for at, verdict in enumerate(said) if verdict is not None and verdict.value is not None}
    if not places:
        return records
    values, headers = (records.column(name).to_pylist() for name in ("value", "headers"))
    for at, verdict in places.items():
        values[at] = verdict.value
        if verdict.header is not None:
            name, value = verdict.header
            headers[at] = [*(headers[at] or ()), {"key": name, "value": value}]
    for name, cells in (("value", values), ("headers", headers)):
        column = records.schema.get_field_index(name)
        records = records.set_column(
            column, records.schema.field(column), pa.array(cells, records.schema.types[column])
        )
    return records
