"""The records of an Arrow batch as Python values, and the rows that are made of them on their way through a segment.

`RecordColumns` makes lists of the columns that are asked for. A `Chunk` holds rows with the records they come from.

A `RecordVerdict` is what an operator with state says about a record, in a column beside it; null is nothing. The column
lives from the operator to the worker that reads the records, within one batch; it is never stored.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from towpath.flow.documents.reader import Document
from towpath.flow.documents.splice import copied
from towpath.flow.failures import RecordFailure
from towpath.log.spark.columns import ARROW_SCHEMA, COLUMNS

RECORD = "_record"
VERDICT = "_verdict"
UNMATCHED = "Unmatched"  # the name of a failure: a join has kept its record, which an earlier batch has read


class RecordColumns:
    """The columns of some records, each made into a list when it is first used."""

    def __init__(self, columns: dict[str, pa.Array]) -> None:
        self.columns = columns

    @classmethod
    def of_batch(cls, batch: pa.RecordBatch) -> RecordColumns:
        judged = (VERDICT,) if VERDICT in batch.schema.names else ()
        return cls({name: batch.column(name) for name in (*COLUMNS, *judged)})

    @classmethod
    def of_struct(cls, struct: pa.StructArray) -> RecordColumns:
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
    def verdicts(self) -> dict[int, RecordVerdict]:
        """What an operator with state has said about some of them, by place."""
        column = self.columns.get(VERDICT)
        if column is None or column.null_count == len(column):
            return {}
        return {at: RecordVerdict.decode(text) for at, text in enumerate(column.to_pylist()) if text is not None}

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


RECORD_TYPE = pa.struct(list(ARROW_SCHEMA))


@dataclass(slots=True)
class Chunk:
    """Some rows with the inputs that they come from.

    `inputs[i]` is the place in `records` of the input of row i; the rows of one input stand together. `befores[i]` is
    the document as the segment got it and `documents[i]` as it is now: what differs is spliced into the record's text.
    An input that has failed has no rows any more.
    """

    records: RecordColumns
    inputs: Sequence[int]
    documents: list[Document]
    befores: list[Document]
    failed: dict[int, RecordFailure] = field(default_factory=dict)
    columns: list[pa.Array] = field(default_factory=list)  # the rows as columns, until a function has changed them
    filtered: Counter[str] = field(default_factory=Counter)  # inputs without rows, by the step that gave none
    gone: dict[int, str] = field(default_factory=dict)  # the same one by one, where something has come back
    siblings: dict[str, Collection[int]] = field(default_factory=dict)  # inputs by output, where there are several
    kin: dict[int, list[bytes]] = field(default_factory=dict)  # delivery ids, of inputs that have several
    tags: list[int | str] | None = None  # of rows from several branches: the branch of each

    def fail(self, failures: dict[int, RecordFailure]) -> None:
        """Take out all rows of these inputs."""
        if failures:
            self.failed.update(failures)
            self.keep([row for row, input in enumerate(self.inputs) if input not in failures])

    def keep(self, rows: Sequence[int]) -> None:
        """Keep these rows only."""
        self.inputs = [self.inputs[row] for row in rows]
        if self.columns:
            places = pa.array(rows, pa.int64())
            self.columns = [column.take(places) for column in self.columns]
        if self.tags is not None:
            self.tags = [self.tags[row] for row in rows]
        documents = [self.documents[row] for row in rows]
        # That nothing was changed shows by both being the same list: it saves looking for changes.
        self.befores = documents if self.befores is self.documents else [self.befores[row] for row in rows]
        self.documents = documents

    def only(self, rows: Sequence[int]) -> Chunk:
        """These rows with nothing but their records, which is all that a report of refusals needs."""
        return Chunk(self.records, [self.inputs[row] for row in rows], [], [], siblings=self.siblings, kin=self.kin)

    def outputs_of(self, input: int) -> list[str]:
        """The outputs, where there are several, that were to get something of an input."""
        for output, inputs in self.siblings.items():
            if not isinstance(inputs, frozenset | range):
                self.siblings[output] = frozenset(inputs)
        return [output for output, inputs in self.siblings.items() if input in inputs]

    def count_inputs(self) -> int:
        """How many inputs have a row."""
        return len(self.inputs) if isinstance(self.inputs, range) else len(set(self.inputs))

    def ordinals(self) -> list[int]:
        """The running number of each row within its input."""
        if isinstance(self.inputs, range):
            return [0] * len(self.inputs)
        ordinals = [0] * min(1, len(self.inputs))
        for before, input in pairwise(self.inputs):
            ordinals.append(ordinals[-1] + 1 if input == before else 0)
        return ordinals

    def families(self) -> dict[int, list[int]]:
        """The rows of each input that has several."""
        if isinstance(self.inputs, range) or len(set(self.inputs)) == len(self.inputs):
            return {}
        rows: dict[int, list[int]] = {}
        for row, input in enumerate(self.inputs):
            rows.setdefault(input, []).append(row)
        return {input: some for input, some in rows.items() if len(some) > 1}

    def fork(self) -> Chunk:
        """The same rows for another output, whose functions may do to the documents what they want."""
        documents = [copied(document) for document in self.documents]
        return Chunk(self.records, self.inputs, documents, self.befores, tags=self.tags)

    def of(self, tag: int | str) -> Chunk:
        """The rows of one branch. Their documents are shared: fork it before a function gets them."""
        tags = self.tags or ()
        rows = [row for row, own in enumerate(tags) if own == tag]
        picked = Chunk(self.records, self.inputs, self.documents, self.befores)
        picked.keep(rows)
        return picked

    def view(self) -> Chunk:
        """The same rows, of which some may be taken out without changing this chunk."""
        return Chunk(self.records, self.inputs, self.documents, self.befores, dict(self.failed), tags=self.tags)


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


class RecordVerdict(NamedTuple):
    """The place in which the record is from now on; why it failed; or the documents that were made of it.

    `moves`: how many other records have come to a place with it, or left it. `value` and `header` are for the record
    itself, when it goes on as another one than it came. `due`: when something of a shard is due, by operator and shard;
    it rides on some record of the shard. `by`: of a tick, the source that has taken it. `seen`: the latest event
    times of a shard, by input of a join. `left`: records that leave the state with it; on their own verdicts `is_again`
    says that an earlier batch has read them. `was_read`: the value is made of others that were read, and may be longer.
    `rule`: the number of the block rule that has said this.
    """

    place: str | None = None
    failure: RecordFailure | None = None
    given: list[dict[str, Any]] | None = None  # None: the record's own
    moves: dict[str, int] | None = None
    value: bytes | None = None
    header: tuple[str, bytes] | None = None
    due: dict[str, list[int]] | None = None
    by: str | None = None
    seen: dict[str, int] | None = None
    is_again: bool = False
    was_read: bool = False
    left: tuple[Any, ...] | None = None
    rule: int | None = None

    def encode(self) -> bytes:
        failure = self.failure and tuple(self.failure)
        return pickle.dumps((self.place, failure, self.given, self.moves, self.due, self.by, *self[8:11], self.rule))

    def after(self, before: bytes | None) -> RecordVerdict:
        """It takes the place of what an operator before has said; what that one has told of its shard stays."""
        if before is None:
            return self
        told = RecordVerdict.decode(before)
        due, seen = {**(told.due or {}), **(self.due or {})}, {**(told.seen or {}), **(self.seen or {})}
        return self._replace(due=due or None, seen=seen or None)

    @classmethod
    def decode(cls, text: bytes) -> RecordVerdict:
        # Written by a worker of the same job.
        place, failure, given, moves, due, by, seen, is_again, was_read, rule = pickle.loads(text)  # noqa: S301
        return cls(
            place,
            failure and RecordFailure(*failure),
            given,
            moves,
            due=due,
            by=by,
            seen=seen,
            is_again=is_again,
            was_read=was_read,
            rule=rule,
        )


def is_settled(text: bytes | None) -> bool:
    """Whether an operator before has said that the record goes no further."""
    if text is None:
        return False
    verdict = RecordVerdict.decode(text)
    return verdict.place is not None or verdict.failure is not None
