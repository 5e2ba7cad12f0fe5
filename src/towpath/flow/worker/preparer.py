"""From rows to deliveries: the text of each document, its target, its ids (`Preparer`).

Names are made column by column. The records of a task are nearly always of one partition: what they have in common is
made once for all of them.

Rows may come to an output by several ways, and outputs may share a part of a way (`ChunkWalk`). A call that several
ways have in common is made once for a row: what it gives is kept until the chunk is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from towpath.flow.delivery.ids import DeliveryIds, versions_of
from towpath.flow.documents.splice import changes, members, splice_rows
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.sinks.sink import Deliveries, Sink
from towpath.flow.worker.caller import StepCall, StepCaller
from towpath.flow.worker.context import BatchContext
from towpath.flow.worker.records import Chunk, RecordColumns

HIDDEN = "_"  # new fields whose names begin so are for steps and names, and are not written
_NONE: frozenset[str] = frozenset()
Edit = tuple[dict[str, Any], frozenset[str]]  # fields to write, and to cut out


@dataclass(frozen=True, slots=True)
class Columns:
    """What steps in the JVM have done to the fields of the document: those not named here are as they were read."""

    changed: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()
    only: frozenset[str] | None = None  # with `extra="drop"`: the fields that may stay
    own: frozenset[str] | None = None  # the fields that were read into columns; None: all that the text has

    @property
    def is_plain(self) -> bool:
        return not self.changed and not self.dropped and self.only is None

    def gone_from(self, text: bytes) -> frozenset[str]:
        """The fields that are to be cut out of a text."""
        if self.only is None:
            return self.dropped
        return self.dropped.union(name for name, *_ in members(text) if name not in self.only)


class Preparer:
    """Makes the deliveries of one output."""

    def __init__(self, output: str, sink: Sink, columns: Columns, batch: BatchContext) -> None:
        self._output = output
        self._columns = columns
        self._batch = batch
        self._ids = DeliveryIds(batch.flow, batch.stage, output)
        self._target = sink.target.filler()
        self._id = None if sink.id is None else sink.id.filler()
        self._routing = None if sink.routing is None else sink.routing.filler()

    def deliveries(self, chunk: Chunk) -> Deliveries:
        """The deliveries of a chunk; an input of which one row cannot be made into a delivery fails as a whole."""
        while True:
            failed: dict[int, RecordFailure] = {}
            payloads = self.payloads(chunk, failed)
            made = self.named(chunk, payloads, failed)
            if not failed:
                return made
            chunk.fail(failed)

    def named(self, chunk: Chunk, payloads: list[bytes], failed: dict[int, RecordFailure]) -> Deliveries:
        """Deliveries of these texts. Where a document lacks what a name is made of, its input is put to `failed`."""
        records, reentry = chunk.records, self._batch.reentry
        if reentry is not None:
            records = reentry.as_first_read(records)
        targets = self._filled(self._target, chunk, failed)
        own_ids = None if self._id is None else self._filled(self._id, chunk, failed)
        routings = None if self._routing is None else self._filled(self._routing, chunk, failed)
        ids, delivery_ids, versions = self._by_coordinates(chunk, records)
        keys, times = records.keys, records.timestamps_ms
        return Deliveries(
            payloads,
            targets,
            ids if own_ids is None else own_ids,
            delivery_ids,
            versions,
            [keys[input] for input in chunk.inputs],
            [times[input] for input in chunk.inputs],
            routings,
            source=chunk,
        )

    def payloads(self, chunk: Chunk, failed: dict[int, RecordFailure]) -> list[bytes]:
        """The text of each row. Rows with the same fields to write are written together: that is much quicker."""
        values = chunk.records.values
        payloads = [values[input] or b"{}" for input in chunk.inputs]
        if self._columns.is_plain and chunk.befores is chunk.documents:
            return payloads
        alike: dict[tuple[tuple[str, ...], frozenset[str]], list[int]] = {}
        written: list[dict[str, Any]] = []
        for row, text in enumerate(payloads):
            shown, dropped = self._edit(chunk, row, text)
            written.append(shown)
            if shown or dropped:
                alike.setdefault((tuple(shown), dropped), []).append(row)
        for (names, dropped), rows in alike.items():
            columns = [[written[row][name] for row in rows] for name in names]
            texts, misfits = splice_rows([payloads[row] for row in rows], names, columns, dropped, step=self._output)
            for row, spliced in zip(rows, texts, strict=True):
                payloads[row] = spliced or b""
            for at, failure in misfits.items():
                failed.setdefault(chunk.inputs[rows[at]], failure)
        return payloads

    def _edit(self, chunk: Chunk, row: int, text: bytes) -> Edit:
        document, before, columns = chunk.documents[row], chunk.befores[row], self._columns
        changed, dropped = ({}, ()) if before is document else changes(before, document)
        if columns.changed:
            changed |= {name: document[name] for name in columns.changed if name in document}
        own = before if columns.own is None else columns.own
        for name in [name for name in changed if name.startswith(HIDDEN) and name not in own]:
            del changed[name]
        gone = _NONE if columns.only is None and not columns.dropped else columns.gone_from(text)
        return changed, gone.union(dropped) if dropped else gone

    def _filled(self, fill: Callable[[Any], str], chunk: Chunk, failed: dict[int, RecordFailure]) -> list[str]:
        try:
            return list(map(fill, chunk.documents))
        except (TypeError, ValueError):
            return [self._tried(fill, chunk, row, failed) for row in range(len(chunk.documents))]

    def _tried(self, fill: Callable[[Any], str], chunk: Chunk, row: int, failed: dict[int, RecordFailure]) -> str:
        try:
            return fill(chunk.documents[row])
        except (TypeError, ValueError) as error:
            failed.setdefault(chunk.inputs[row], RecordFailure.of(ErrorCode.TRANSFORM_FAILED, self._output, error))
            return ""

    def _by_coordinates(self, chunk: Chunk, records: RecordColumns) -> tuple[list[str], list[bytes], list[int]]:
        batch = self._batch
        ids: list[str] = []
        delivery_ids: list[bytes] = []
        versions: list[int] = []
        ordinals = chunk.ordinals()
        for topic, partition, start, stop in _runs(chunk.inputs, records):
            offsets = [records.offsets[input] for input in chunk.inputs[start:stop]]
            incarnation = batch.incarnations.get(topic, 0)
            ids += _shown(f"{topic}:{incarnation}:{partition}:", offsets, ordinals[start:stop])
            topic_id = batch.topic_ids.get(topic, topic)
            delivery_ids += self._ids.many(topic_id, partition, offsets, ordinals[start:stop])
            versions += versions_of(incarnation, offsets)
        if batch.reentry is not None:
            ids = list(map(batch.reentry.shown, ids))
        return ids, delivery_ids, versions


@dataclass(frozen=True, slots=True)
class CallPath:
    """The calls from a branch to an output; a name between them is the output of the last call that is taken."""

    branch: int | None  # None: there is but one
    hops: tuple[StepCall | str, ...]
    columns: Columns


class ChunkWalk:
    """One chunk on all its ways."""

    def __init__(self, chunk: Chunk, callers: Mapping[int, StepCaller]) -> None:
        self._chunk = chunk
        self._callers = callers
        self._come: dict[tuple[int | str | None, ...], Chunk] = {}

    def end(self, way: CallPath) -> Chunk:
        """The rows that come to the end of a way, and the inputs that have failed on it."""
        key: tuple[int | str | None, ...] = (way.branch,)
        come = self._come.get(key)
        if come is None:
            come = self._come[key] = self._chunk.view() if way.branch is None else self._chunk.of(way.branch)
        for hop in way.hops:
            key = (*key, hop if isinstance(hop, str) else id(hop))
            after = self._come.get(key)
            if after is None:
                after = self._come[key] = self._hop(come, hop)
            come = after
        return come.view()

    def _hop(self, come: Chunk, hop: StepCall | str) -> Chunk:
        if isinstance(hop, str):
            after = come.of(hop)
        else:
            after = come.fork()
            self._callers[id(hop)].run(after)
        after.failed = {**come.failed, **after.failed}
        return after


def _runs(inputs: Sequence[int], records: RecordColumns) -> Iterator[tuple[str, int, int, int]]:
    """Topic, partition, and from where to where the rows are of them."""
    topics, partitions = records.topic_keys, records.partitions
    if not inputs:
        return
    if len(set(topics)) == 1 and len(set(partitions)) == 1:
        yield topics[0], partitions[0], 0, len(inputs)
        return
    start = 0
    for (topic, partition), rows in groupby((topics[input], partitions[input]) for input in inputs):
        stop = start + sum(1 for _ in rows)
        yield topic, partition, start, stop
        start = stop


def _shown(prefix: str, offsets: Sequence[int], ordinals: Sequence[int]) -> list[str]:
    """`topic:incarnation:partition:offset`, and the ordinal behind it from the second delivery on."""
    if not any(ordinals):
        return [f"{prefix}{offset}" for offset in offsets]
    return [
        f"{prefix}{offset}:{ordinal}" if ordinal else f"{prefix}{offset}"
        for offset, ordinal in zip(offsets, ordinals, strict=True)
    ]
