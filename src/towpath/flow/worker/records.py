"""The records of an Arrow batch, as Python values when one of them is asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from towpath.flow.stateful.verdict import VERDICT, Verdict
from towpath.log.spark_columns import ARROW_SCHEMA, COLUMNS

RECORD = "_record"
RECORD_TYPE = pa.struct(list(ARROW_SCHEMA))


class RecordInfo(NamedTuple):
    """What an `each` function may ask about the record that it works on.

    `id`, its delivery id, and `delivery_hash`, that of its batch, are the same on every attempt: effects outside can be
    made idempotent by them. A replay has the same id, in another batch.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    id: str
    delivery_hash: str = ""


class Records:
    """The columns of some records, each made into a list when it is first used."""

    def __init__(self, columns: dict[str, pa.Array]) -> None:
        self.columns = columns

    @classmethod
    def of_batch(cls, batch: pa.RecordBatch) -> Records:
        judged = (VERDICT,) if VERDICT in batch.schema.names else ()
        return cls({name: batch.column(name) for name in (*COLUMNS, *judged)})

    @classmethod
    def of_struct(cls, struct: pa.StructArray) -> Records:
        return cls({name: struct.field(name) for name in COLUMNS})

    def struct(self) -> pa.StructArray:
        return pa.StructArray.from_arrays([self.columns[name] for name in COLUMNS], fields=list(RECORD_TYPE))

    def __len__(self) -> int:
        return len(self.columns["offset"])

    @cached_property
    def topics(self) -> list[str]:
        return self._list("topic")

    @property
    def topic_keys(self) -> list[str]:
        """What stands for one topic id each: its name, unless a record is of a topic that had that name once."""
        return self.topics

    @cached_property
    def partitions(self) -> list[int]:
        return self._list("partition")

    @cached_property
    def offsets(self) -> list[int]:
        return self._list("offset")

    @cached_property
    def values(self) -> list[bytes | None]:
        return self._list("value")

    @cached_property
    def keys(self) -> list[bytes | None]:
        column = self.columns["key"]
        return [None] * len(column) if column.null_count == len(column) else self._list("key")

    @cached_property
    def timestamps_ms(self) -> list[int]:
        microseconds = self.columns["timestamp"].cast(pa.int64()).fill_null(0)
        values: list[int] = pc.divide(microseconds, 1000).to_pylist()
        return values

    @cached_property
    def verdicts(self) -> dict[int, Verdict]:
        """What an operator with state has said about some of them, by place."""
        column = self.columns.get(VERDICT)
        if column is None or column.null_count == len(column):
            return {}
        return {at: Verdict.decode(text) for at, text in enumerate(column.to_pylist()) if text is not None}

    @property
    def is_mixed(self) -> bool:
        """Whether the partitions that they are of may stand in any order: an operator has sorted them by its keys."""
        return VERDICT in self.columns

    def headers(self, at: int) -> tuple[tuple[str, bytes | None], ...]:
        return tuple((header["key"], header["value"]) for header in self.columns["headers"][at].as_py() or ())

    def coordinates(self, at: int) -> tuple[str, int, int]:
        return self.topics[at], self.partitions[at], self.offsets[at]

    def info(self, at: int, id: str, delivery_hash: str = "") -> RecordInfo:
        return RecordInfo(
            self.topics[at],
            self.partitions[at],
            self.offsets[at],
            self.timestamps_ms[at],
            self.keys[at],
            self.headers(at),
            id,
            delivery_hash,
        )

    def _list(self, name: str) -> list[Any]:
        values: list[Any] = self.columns[name].to_pylist()
        return values
