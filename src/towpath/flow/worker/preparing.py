"""From rows to deliveries: the text of each document, its target, its id."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from towpath.flow.codes import ErrorCode
from towpath.flow.delivery import DeliveryIds, version_of
from towpath.flow.failure import Failure
from towpath.flow.sinks.sink import Deliveries, Sink
from towpath.flow.text.changes import changes
from towpath.flow.text.members import members
from towpath.flow.text.splicing import splice_rows
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.chunk import Chunk

HIDDEN = "_"  # new fields whose names begin so are for steps and names, and are not written
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
            payloads = self._payloads(chunk, failed)
            made = self._named(chunk, payloads, failed)
            if not failed:
                return made
            chunk.fail(failed)

    def _named(self, chunk: Chunk, payloads: list[bytes], failed: dict[int, Failure]) -> Deliveries:
        batch, records, documents = self._batch, chunk.records, chunk.documents
        topics, partitions, offsets, keys = records.topics, records.partitions, records.offsets, records.keys
        times = records.timestamps_ms
        targets, ids, delivery_ids, versions, routings = [], [], [], [], []
        for input, ordinal, document in zip(chunk.inputs, _ordinals(chunk), documents, strict=True):
            topic, partition, offset = topics[input], partitions[input], offsets[input]
            try:
                targets.append(self._target(document))
                ids.append(
                    self._coordinates(topic, partition, offset, ordinal) if self._id is None else self._id(document)
                )
                if self._routing is not None:
                    routings.append(self._routing(document))
            except (TypeError, ValueError) as error:
                failed.setdefault(input, Failure.of(ErrorCode.TRANSFORM_FAILED, self._output, error))
                continue
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

    def _payloads(self, chunk: Chunk, failed: dict[int, Failure]) -> list[bytes]:
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
        if before is document:
            changed: dict[str, Any] = {}
            dropped: list[str] = []
        else:
            changed, dropped = changes(before, document)
        changed |= {name: document[name] for name in columns.changed if name in document}
        own = before if columns.own is None else columns.own
        shown = {name: value for name, value in changed.items() if name in own or not name.startswith(HIDDEN)}
        return shown, columns.gone_from(text).union(dropped)

    def _coordinates(self, topic: str, partition: int, offset: int, ordinal: int) -> str:
        """`topic:incarnation:partition:offset`, and the ordinal behind it from the second delivery on."""
        id = f"{topic}:{self._batch.incarnations.get(topic, 0)}:{partition}:{offset}"
        return f"{id}:{ordinal}" if ordinal else id


def _ordinals(chunk: Chunk) -> list[int]:
    """The running number of each row within its input."""
    if isinstance(chunk.inputs, range):
        return [0] * len(chunk.inputs)
    ordinals = [0] * min(1, len(chunk.inputs))
    for before, input in pairwise(chunk.inputs):
        ordinals.append(ordinals[-1] + 1 if input == before else 0)
    return ordinals
