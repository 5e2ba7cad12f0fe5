"""From rows to deliveries: the text of each document, its target, its id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from towpath.flow.failure import Failure
from towpath.flow.sinks.sink import Deliveries, Sink
from towpath.flow.text.changes import changes
from towpath.flow.text.members import members
from towpath.flow.text.splicing import splice_rows
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.chunk import Chunk
from towpath.flow.worker.naming import Namer

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

    def __init__(self, output: str, sink: Sink, columns: Columns, batch: BatchPlace) -> None:
        self._output = output
        self._columns = columns
        self._batch = batch
        self._namer = Namer(output, sink, batch)

    def deliveries(self, chunk: Chunk) -> Deliveries:
        """The deliveries of a chunk; an input of which one row cannot be made into a delivery fails as a whole."""
        while True:
            failed: dict[int, Failure] = {}
            payloads = self.payloads(chunk, failed)
            made = self.named(chunk, payloads, failed)
            if not failed:
                return made
            chunk.fail(failed)

    def named(self, chunk: Chunk, payloads: list[bytes], failed: dict[int, Failure]) -> Deliveries:
        """Deliveries of texts that are made; an input for which a name cannot be made is put to `failed`."""
        records, reentry = chunk.records, self._batch.reentry
        if reentry is not None:
            records = reentry.as_first_read(records)
        names = self._namer.names(chunk, records, failed)
        keys, times = records.keys, records.timestamps_ms
        return Deliveries(
            payloads,
            names.targets,
            names.ids,
            names.delivery_ids,
            names.versions,
            [keys[input] for input in chunk.inputs],
            [times[input] for input in chunk.inputs],
            names.routings,
            source=chunk,
        )

    def payloads(self, chunk: Chunk, failed: dict[int, Failure]) -> list[bytes]:
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
