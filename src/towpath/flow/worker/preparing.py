"""From rows to deliveries: the text of each document, its target, its id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from towpath.flow.codes import ErrorCode
from towpath.flow.delivery import DeliveryIds, version_of
from towpath.flow.failure import Failure
from towpath.flow.sinks.sink import Deliveries, Sink
from towpath.flow.text.changes import changes
from towpath.flow.text.splicing import splice
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.chunk import Chunk, Document

HIDDEN = "_"  # fields whose names begin so are for steps and names, and are not written


@dataclass(frozen=True, slots=True)
class Columns:
    """What steps in the JVM have done to the fields of the document: those not named here are as they were read."""

    changed: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()
    only: frozenset[str] | None = None  # with `extra="drop"`: the fields that may stay

    @property
    def is_plain(self) -> bool:
        return not self.changed and not self.dropped and self.only is None

    def gone_from(self, text: bytes) -> frozenset[str]:
        """The fields that are to be cut out of a text."""
        if self.only is None:
            return self.dropped
        return self.dropped.union(name for name in orjson.loads(text) if name not in self.only)


class Preparer:
    """Makes the deliveries of one output."""

    def __init__(self, output: str, sink: Sink, columns: Columns, batch: BatchPlace) -> None:
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
            failed: dict[int, Failure] = {}
            made = self._try(chunk, failed)
            if not failed:
                return made
            chunk.fail(failed)

    def _try(self, chunk: Chunk, failed: dict[int, Failure]) -> Deliveries:
        batch, records = self._batch, chunk.records
        topics, partitions, offsets, keys = records.topics, records.partitions, records.offsets, records.keys
        times = records.timestamps_ms
        payloads, targets, ids, delivery_ids, versions, routings = [], [], [], [], [], []
        previous, ordinal = -1, 0
        for row, input in enumerate(chunk.inputs):
            ordinal = ordinal + 1 if input == previous else 0
            previous = input
            document = chunk.documents[row]
            try:
                payload = self._payload(chunk, row, input, document)
                targets.append(self._target(document))
                topic, partition, offset = topics[input], partitions[input], offsets[input]
                ids.append(
                    self._coordinates(topic, partition, offset, ordinal) if self._id is None else self._id(document)
                )
                if self._routing is not None:
                    routings.append(self._routing(document))
            except (TypeError, ValueError) as error:
                failed.setdefault(input, Failure.of(ErrorCode.TRANSFORM_FAILED, self._output, error))
                continue
            payloads.append(payload)
            delivery_ids.append(self._ids.of(batch.topic_ids.get(topic, topic), partition, offset, ordinal))
            versions.append(version_of(batch.incarnations.get(topic, 0), offset))
        return Deliveries(
            payloads,
            targets,
            ids,
            delivery_ids,
            versions,
            [keys[input] for input in chunk.inputs],
            [times[input] for input in chunk.inputs],
            routings if self._routing is not None else None,
            source=chunk,
        )

    def _payload(self, chunk: Chunk, row: int, input: int, document: Document) -> bytes:
        text = chunk.records.values[input] or b"{}"
        before = chunk.befores[row]
        columns = self._columns
        if before is document:
            if columns.is_plain:
                return text
            changed = {name: document[name] for name in columns.changed if name in document}
            return splice(text, _shown(changed), columns.gone_from(text))
        changed, dropped = changes(before, document)
        for name in columns.changed:
            if name in document:
                changed[name] = document[name]
        return splice(text, _shown(changed), columns.gone_from(text).union(dropped))

    def _coordinates(self, topic: str, partition: int, offset: int, ordinal: int) -> str:
        """`topic:incarnation:partition:offset`, and the ordinal behind it from the second delivery on."""
        id = f"{topic}:{self._batch.incarnations.get(topic, 0)}:{partition}:{offset}"
        return f"{id}:{ordinal}" if ordinal else id


def _shown(changed: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in changed.items() if not name.startswith(HIDDEN)}
