"""Records that leave a join without a partner come out of the operator once more, as themselves.

So what lies in the error topic is the record that has waited, with its own coordinates, key and headers. It was read by
the batch in which it came, so it is not counted as read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pyarrow as pa

from towpath.flow.stateful.column_waiting import Entry
from towpath.flow.stateful.verdict import VERDICT, Verdict

Leaving = tuple[Entry, Verdict]


def with_left(records: pa.Table, said: Sequence[Verdict | None]) -> pa.Table:
    """The records of a shard and, behind them, those that leave with one of them."""
    left: list[Leaving] = [*chain.from_iterable(verdict.left or () for verdict in said if verdict is not None)]
    if not left:
        return records
    rows = [_row(entry, verdict) for entry, verdict in left]
    return pa.concat_tables([records, pa.Table.from_pylist(rows, schema=records.schema)])


def _row(entry: Entry, verdict: Verdict) -> dict[str, object]:
    return {
        "topic": entry.topic,
        "partition": entry.partition,
        "offset": entry.offset,
        "timestamp": entry.timestamp_ms * 1000,
        "key": entry.key,
        "value": entry.value,
        "headers": [{"key": name, "value": value} for name, value in entry.headers],
        VERDICT: verdict._replace(is_again=True).encode(),
    }
