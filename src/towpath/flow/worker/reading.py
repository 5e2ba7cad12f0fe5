"""How a segment begins: records are read as JSON, or columns come from a step in the JVM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from towpath.access.barrier import OPEN, Barrier
from towpath.access.block_rule import BlockAction
from towpath.flow.codes import ErrorCode
from towpath.flow.failure import Failure, bounded
from towpath.flow.place import Place
from towpath.flow.stateful.blocked import refused_by
from towpath.flow.text.reading import Duplicates, Unreadable, read_document, read_documents
from towpath.flow.text.schema import Schema
from towpath.flow.worker.chunk import Chunk, Document
from towpath.flow.worker.records import RECORD, Records
from towpath.flow.worker.reentry import Reentry
from towpath.flow.worker.report import Report

UNMET = "_unmet"
Excluded = Mapping[tuple[str, int], Mapping[int, Failure]]  # by topic and partition, by offset


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """Begins with records of topics. `excluded` are known to end a worker or a step: they fail before they are read."""

    source: str
    max_bytes: int
    duplicates: Duplicates
    schema: Schema | None
    excluded: Excluded
    reentry: Reentry | None = None
    blocks: Barrier = OPEN

    def chunks(self, batches: Iterator[pa.RecordBatch], report: Report) -> Iterator[Chunk]:
        for batch in batches:
            if batch.num_rows:
                yield self._chunk(Records.of_batch(batch), report)

    def _chunk(self, records: Records, report: Report) -> Chunk:
        report.counts.saw(records)
        known = self._known_failures(records)
        values = records.values
        others: dict[int, str] = {}
        if self.reentry is not None:
            others, misfits = self.reentry.sort(records)
            known |= misfits
        placed = {at: verdict.place for at, verdict in records.verdicts.items() if verdict.place is not None}
        known |= {at: verdict.failure for at, verdict in records.verdicts.items() if verdict.failure is not None}
        if self.blocks:
            known |= self._block(records, placed, report)
        known = {at: failure for at, failure in known.items() if at not in placed} if placed else known
        report.counts.placed.update(placed.values())
        for verdict in records.verdicts.values():
            report.counts.placed.update(verdict.moves or {})
            report.counts.due.update(verdict.due or {})
            report.counts.heard(verdict.seen or {})
        passed = {at for at, verdict in records.verdicts.items() if verdict.was_read}.union(known, others, placed)
        if passed:
            values = [b"{}" if at in passed else value for at, value in enumerate(values)]
        documents, failures = read_documents(
            values, step=self.source, max_bytes=self.max_bytes, duplicates=self.duplicates
        )
        for at in passed.difference(known, others, placed):
            text = records.values[at] or b""
            try:
                documents[at] = read_document(text, max_bytes=len(text), duplicates=self.duplicates)
            except Unreadable as error:
                failures[at] = Failure(error.code, self.source, error.rule, str(error))
        failures.update(known)
        # Those that could not be read leave at once.
        chunk = Chunk(records, range(len(records)), cast(list[Document], documents), cast(list[Document], documents))
        chunk.fail(failures)
        if others or placed:
            chunk.filtered += Counter(others.values())
            chunk.keep([row for row, input in enumerate(chunk.inputs) if input not in others and input not in placed])
        if self.schema is not None:
            columns, unfit = self.schema.columns(chunk.documents, step=self.source)
            chunk.columns = columns.columns
            # What a function with state was given did fit; what it gave, at a tick perhaps, is for no schema.
            verdicts = records.verdicts
            given = {input for input in verdicts if verdicts[input].given is not None}
            unfit = {chunk.inputs[row]: failure for row, failure in unfit.items()}
            chunk.fail({input: failure for input, failure in unfit.items() if input not in given})
        report.counts.entered += len(chunk.documents)
        self._give(chunk)
        return chunk

    def _block(self, records: Records, placed: dict[int, str], report: Report) -> dict[int, Failure]:
        """Put what block rules keep out in its place; returns what they refuse. Before operators they were asked."""
        if records.is_mixed:
            said = {at: verdict for at, verdict in records.verdicts.items() if verdict.rule is not None}
            report.counts.caught.update(verdict.rule for verdict in said.values() if verdict.rule is not None)
            failures = {at: verdict.failure for at, verdict in said.items()}
            return {at: each._replace(step=self.source) for at, each in failures.items() if each is not None}
        caught = self.blocks.caught_in_topics(records, None if self.reentry is None else self.reentry.topic)
        report.counts.caught.update(rule.number for rule in caught.values())
        placed |= {at: Place.BLOCKED for at, rule in caught.items() if rule.action is BlockAction.IGNORE}
        return {at: refused_by(rule, self.source) for at, rule in caught.items() if at not in placed}

    def _give(self, chunk: Chunk) -> None:
        """Put what a stateful step has made of the records in their places."""
        given = {at: verdict.given for at, verdict in chunk.records.verdicts.items() if verdict.given is not None}
        if not given:
            return
        gone = [input for input in chunk.inputs if given.get(input) == []]
        rows = [
            (input, before, document)
            for input, before in zip(chunk.inputs, chunk.befores, strict=True)
            for document in given.get(input, (before,))
        ]
        chunk.inputs = [input for input, _, _ in rows]
        chunk.befores = [before for _, before, _ in rows]
        chunk.documents = [document for _, _, document in rows]
        chunk.columns = []
        chunk.filtered[self.source] += len(gone)
        if self.reentry is not None:
            chunk.gone |= dict.fromkeys(gone, self.source)

    def _known_failures(self, records: Records) -> dict[int, Failure]:
        if not self.excluded:
            return {}
        coordinates = zip(records.topics, records.partitions, records.offsets, strict=True)
        return {
            at: found
            for at, (topic, partition, offset) in enumerate(coordinates)
            if (found := self.excluded.get((topic, partition), {}).get(offset)) is not None
        }


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """Begins with the rows of a step in the JVM: its columns, the record, and which expectations were not met."""

    step: str
    names: tuple[str, ...]  # the columns that this segment needs as Python values
    has_expectations: bool

    def chunks(self, batches: Iterator[pa.RecordBatch], report: Report) -> Iterator[Chunk]:
        for batch in whole_inputs(batches):
            yield self._chunk(batch, report)

    def _chunk(self, batch: pa.RecordBatch, report: Report) -> Chunk:
        struct = batch.column(RECORD)
        if struct.null_count:
            raise NoRecord(self.step)
        records = Records.of_struct(struct)
        inputs = first_rows(records)
        documents = self._documents(batch)
        chunk = Chunk(records, inputs, documents, documents)
        chunk.columns = [batch.column(at) for at, name in enumerate(batch.schema.names) if name not in (RECORD, UNMET)]
        report.counts.entered += chunk.count_inputs()
        if self.has_expectations:
            unmet = batch.column(UNMET)
            if unmet.null_count < len(unmet):
                chunk.fail(not_met(chunk, [self.step] * len(unmet), unmet.to_pylist()))
        return chunk

    def _documents(self, batch: pa.RecordBatch) -> list[Document]:
        columns = [batch.column(name).to_pylist(maps_as_pydicts="strict") for name in self.names]
        if not columns:
            return [{} for _ in range(batch.num_rows)]
        names = self.names
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def not_met(chunk: Chunk, steps: Sequence[str], unmet: Sequence[str | None]) -> dict[int, Failure]:
    """The inputs of which a row does not meet the expectations of its step."""
    return {
        chunk.inputs[row]: Failure(ErrorCode.NOT_VALID, steps[row], bounded(rules, 200), f"not met: {rules}")
        for row, rules in enumerate(unmet)
        if rules is not None
    }


class NoRecord(ValueError):
    """A step gives rows that belong to no record."""

    def __init__(self, step: str) -> None:
        super().__init__(
            f"step {step!r} gives rows without {RECORD}: an outer join, perhaps; keep the side of the records"
        )


def whole_inputs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches cut so that the rows of one input are never in two of them."""
    carried: pa.RecordBatch | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        if carried is not None:
            batch = pa.concat_batches([carried, batch])
        begin = _last_input(batch)
        carried = batch.slice(begin)
        if begin:
            yield batch.slice(0, begin)
    if carried is not None and carried.num_rows:
        yield carried


def _last_input(batch: pa.RecordBatch) -> int:
    """Where the rows of the last input begin."""
    struct = batch.column(RECORD)
    last: int = batch.num_rows - 1
    own = [struct.field(name) for name in ("topic", "partition", "offset")]
    coordinates = [column[last] for column in own]
    while last > 0 and all(column[last - 1] == value for column, value in zip(own, coordinates, strict=True)):
        last -= 1
    return last


def first_rows(records: Records) -> list[int]:
    """For each row the first row of the same input."""
    first = 0
    rows = []
    offsets, partitions, topics = records.offsets, records.partitions, records.topics
    for row, offset in enumerate(offsets):
        if offset != offsets[first] or partitions[row] != partitions[first] or topics[row] != topics[first]:
            first = row
        rows.append(first)
    return rows
