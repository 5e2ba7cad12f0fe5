"""Names of deliveries: target, id, routing, delivery id and version, column by column.

The records of a task are nearly always of one partition: what they have in common is made once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from towpath.flow.codes import ErrorCode
from towpath.flow.delivery import DeliveryIds, versions_of
from towpath.flow.failure import Failure
from towpath.flow.sinks.sink import Sink
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.chunk import Chunk
from towpath.flow.worker.records import Records


class Names(NamedTuple):
    """One of each for every row."""

    targets: list[str]
    ids: list[str]
    routings: list[str] | None
    delivery_ids: list[bytes]
    versions: list[int]


class Namer:
    """Names what goes to one output."""

    def __init__(self, output: str, sink: Sink, batch: BatchPlace) -> None:
        self._output = output
        self._batch = batch
        self._ids = DeliveryIds(batch.flow, batch.stage, output)
        self._target = sink.target.filler()
        self._id = None if sink.id is None else sink.id.filler()
        self._routing = None if sink.routing is None else sink.routing.filler()

    def names(self, chunk: Chunk, records: Records, failed: dict[int, Failure]) -> Names:
        """Of all rows; where a document lacks what a name is made of, its input is put to `failed`."""
        targets = self._filled(self._target, chunk, failed)
        own_ids = None if self._id is None else self._filled(self._id, chunk, failed)
        routings = None if self._routing is None else self._filled(self._routing, chunk, failed)
        ids, delivery_ids, versions = self._by_coordinates(chunk, records)
        return Names(targets, ids if own_ids is None else own_ids, routings, delivery_ids, versions)

    def _filled(self, fill: Callable[[Any], str], chunk: Chunk, failed: dict[int, Failure]) -> list[str]:
        try:
            return list(map(fill, chunk.documents))
        except (TypeError, ValueError):
            return [self._tried(fill, chunk, row, failed) for row in range(len(chunk.documents))]

    def _tried(self, fill: Callable[[Any], str], chunk: Chunk, row: int, failed: dict[int, Failure]) -> str:
        try:
            return fill(chunk.documents[row])
        except (TypeError, ValueError) as error:
            failed.setdefault(chunk.inputs[row], Failure.of(ErrorCode.TRANSFORM_FAILED, self._output, error))
            return ""

    def _by_coordinates(self, chunk: Chunk, records: Records) -> tuple[list[str], list[bytes], list[int]]:
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


def _runs(inputs: Sequence[int], records: Records) -> Iterator[tuple[str, int, int, int]]:
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
