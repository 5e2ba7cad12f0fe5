"""How a segment begins: records are read as JSON, or columns come from a step in the JVM.

Block rules keep records out before operators with state see them: what is blocked is neither remembered nor joined. The
rules are fixed with the snapshot of a batch, in its row, so every attempt at the batch has the same ones.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from towpath.blocks.rule import OPEN, BlockAction, BlockBarrier, BlockRule
from towpath.flow.delivery.places import RecordPlace
from towpath.flow.documents.reader import Document, Duplicates, Unreadable, read_document, read_documents
from towpath.flow.documents.schema import Schema
from towpath.flow.failures import ErrorCode, RecordFailure, bounded
from towpath.flow.worker.context import Reentry
from towpath.flow.worker.records import RECORD, Chunk, RecordColumns, RecordVerdict
from towpath.flow.worker.report import SegmentReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTY = "towpath.blocks"
BLOCKED = "Blocked"  # the name of the failure

UNMET = "_unmet"
Excluded = Mapping[tuple[str, int], Mapping[int, RecordFailure]]  # by topic and partition, by offset


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """Begins with records of topics. `excluded` are known to end a worker or a step: they fail before they are read."""

    source: str
    max_bytes: int
    duplicates: Duplicates
    schema: Schema | None
    excluded: Excluded
    reentry: Reentry | None = None
    blocks: BlockBarrier = OPEN

    def chunks(self, batches: Iterator[pa.RecordBatch], report: SegmentReport) -> Iterator[Chunk]:
        for batch in batches:
            if batch.num_rows:
                yield self._chunk(RecordColumns.of_batch(batch), report)

    def _chunk(self, records: RecordColumns, report: SegmentReport) -> Chunk:
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
                failures[at] = RecordFailure(error.code, self.source, error.rule, str(error))
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

    def _block(self, records: RecordColumns, placed: dict[int, str], report: SegmentReport) -> dict[int, RecordFailure]:
        """Put what block rules keep out in its place; returns what they refuse. Before operators they were asked."""
        if records.is_mixed:
            said = {at: verdict for at, verdict in records.verdicts.items() if verdict.rule is not None}
            report.counts.caught.update(verdict.rule for verdict in said.values() if verdict.rule is not None)
            failures = {at: verdict.failure for at, verdict in said.items()}
            return {at: each._replace(step=self.source) for at, each in failures.items() if each is not None}
        caught = self.blocks.caught_in_topics(records, None if self.reentry is None else self.reentry.topic)
        report.counts.caught.update(rule.number for rule in caught.values())
        placed |= {at: RecordPlace.BLOCKED for at, rule in caught.items() if rule.action is BlockAction.IGNORE}
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

    def _known_failures(self, records: RecordColumns) -> dict[int, RecordFailure]:
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

    def chunks(self, batches: Iterator[pa.RecordBatch], report: SegmentReport) -> Iterator[Chunk]:
        for batch in whole_inputs(batches):
            yield self._chunk(batch, report)

    def _chunk(self, batch: pa.RecordBatch, report: SegmentReport) -> Chunk:
        struct = batch.column(RECORD)
        if struct.null_count:
            raise NoRecord(self.step)
        records = RecordColumns.of_struct(struct)
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


class NoRecord(ValueError):
    """A step gives rows that belong to no record."""

    def __init__(self, step: str) -> None:
        super().__init__(
            f"step {step!r} gives rows without {RECORD}: an outer join, perhaps; keep the side of the records"
        )


def tell_blocks(spark: SparkSession, blocks: BlockBarrier) -> None:
    """Hand the rules to all jobs that this thread begins: the plan of a query is made once, and knows no batch."""
    spark.sparkContext.setLocalProperty(PROPERTY, json.dumps(blocks.to_value()) if blocks else "")


def told_blocks() -> BlockBarrier:
    """What the driver has told the task that asks."""
    from pyspark import TaskContext

    context = TaskContext.get()
    text = None if context is None else context.getLocalProperty(PROPERTY)
    return BlockBarrier.of_value(json.loads(text)) if text else BlockBarrier()


def verdicts(batch: pa.RecordBatch, blocks: BlockBarrier, reentry: str) -> pa.Array:
    """What is to be said about records that no operator has seen; null is nothing."""
    caught = blocks.caught_in_topics(RecordColumns.of_batch(batch), reentry)
    said = [_verdict(caught[at]).encode() if at in caught else None for at in range(batch.num_rows)]
    return pa.array(said, pa.binary())


def _verdict(rule: BlockRule) -> RecordVerdict:
    if rule.action is BlockAction.IGNORE:
        return RecordVerdict(RecordPlace.BLOCKED, rule=rule.number)
    return RecordVerdict(failure=refused_by(rule, ""), rule=rule.number)


def refused_by(rule: BlockRule, source: str) -> RecordFailure:
    """The failure of a record that a rule refuses. Only the reader of the record knows its source."""
    return RecordFailure(ErrorCode.NOT_VALID, source, BLOCKED, bounded(rule.reason))


def not_met(chunk: Chunk, steps: Sequence[str], unmet: Sequence[str | None]) -> dict[int, RecordFailure]:
    """The inputs of which a row does not meet the expectations of its step."""
    return {
        chunk.inputs[row]: RecordFailure(ErrorCode.NOT_VALID, steps[row], bounded(rules, 200), f"not met: {rules}")
        for row, rules in enumerate(unmet)
        if rules is not None
    }


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


def first_rows(records: RecordColumns) -> list[int]:
    """For each row the first row of the same input."""
    first = 0
    rows = []
    offsets, partitions, topics = records.offsets, records.partitions, records.topics
    for row, offset in enumerate(offsets):
        if offset != offsets[first] or partitions[row] != partitions[first] or topics[row] != topics[first]:
            first = row
        rows.append(first)
    return rows
