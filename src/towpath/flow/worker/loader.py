"""The end of a segment: rows become deliveries, which go to their sinks or, if decided first, into files.

`Deliver` ends a segment that way; `LoadDecided` loads what was decided before (step 4 of
docs/explanation/delivery.md, where step 2 was a job of its own). Both hand the deliveries of a unit to a
`UnitDelivery`, which gives them first to the sinks that may refuse something, and to the others what is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path

import pyarrow as pa

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.errors import NeedsPerson, SinkError
from towpath.flow.delivery.ids import Digest
from towpath.flow.failures import ErrorCode, RecordFailure, bounded, encode_fault
from towpath.flow.sinks.sink import Deliveries, DeliveryBuffer, Refusal, Sink
from towpath.flow.worker.breadcrumb import Breadcrumb
from towpath.flow.worker.caller import StepCall, StepCaller, Watchdog, open_callers
from towpath.flow.worker.context import BatchContext
from towpath.flow.worker.decision import DecisionFile, RefusedFile, decided, unit_name
from towpath.flow.worker.preparer import CallPath, ChunkWalk, Columns, Preparer
from towpath.flow.worker.records import Chunk
from towpath.flow.worker.report import Coordinates, SegmentReport

NAME = "load"  # of the reports of `LoadDecided`
EVERY_OUTPUT = "every output"  # has filtered it, each by functions of its own


@dataclass(frozen=True, slots=True)
class Deliver:
    """Ends with deliveries: to the sinks, or with `decides` to a file from which they are loaded later."""

    loads: tuple[OutputLoad, ...]
    buckets: int | None = None  # of a stage that shuffles; None: a task has one input partition
    decides: bool = False

    def unit(self, chunk: Chunk, task: str) -> str:
        """The name of what this task does, the same on every attempt, in whatever order Spark numbers its tasks."""
        if self.buckets is not None:
            return f"{task}of{self.buckets}"
        topic, partition, _ = chunk.records.coordinates(0)
        return f"{topic}/{partition}"

    def run(
        self,
        chunks: Iterator[Chunk],
        task: str,
        batch: BatchContext,
        breadcrumb: Breadcrumb,
        watchdog: Watchdog | None,
        report: SegmentReport,
        closing: ExitStack,
    ) -> None:
        first = next(chunks, None)
        if first is None:
            return  # no input, no unit
        unit = self.unit(first, task)
        outputs = [OutputPreparer(load, batch, breadcrumb, watchdog) for load in self.loads]
        sinks = {load.output: load.sink for load in self.loads}
        end = DecisionFile(batch, unit, closing) if self.decides else UnitDelivery(sinks, batch, unit, report, closing)
        calls = [call for load in self.loads for call in load.all_calls]
        callers = {id(call): StepCaller(call, breadcrumb, watchdog) for call in calls}
        has_ways = any(load.ways for load in self.loads)
        for chunk in chain([first], chunks):
            deliveries = prepare_ways(outputs, chunk, callers) if has_ways else prepare_all(outputs, chunk)
            if batch.reentry is not None:
                named = zip(self.loads, deliveries, strict=True)
                deliveries = [batch.reentry.missing(load.output, each) for load, each in named]
            report.add(chunk)
            end.give(chunk, deliveries)
        end.finish()


@dataclass(frozen=True, slots=True)
class LoadDecided:
    """Sent to the workers; a task is given the numbers of the units that it has to load."""

    units: tuple[Path, ...]
    sinks: Mapping[str, Sink]
    batch: BatchContext

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `mapInArrow` calls in a worker."""
        for batch in batches:
            for number in batch.column("id").to_pylist():
                self.load(number)
        yield from ()

    def load(self, number: int) -> None:
        crash.arm_worker(self.batch.crash)
        path = self.units[number]
        report = SegmentReport(Path(self.batch.directory), f"{NAME}-{number}")
        with ExitStack() as closing:
            delivery = UnitDelivery(self.sinks, self.batch, unit_name(path), report, closing)
            for chunk, deliveries in decided(path, len(self.sinks)):
                delivery.give(chunk, deliveries)
            delivery.finish()
        report.finish()


@dataclass(frozen=True, slots=True)
class OutputLoad:
    """One output: the calls that only it needs, and the sink. With `ways` rows come by these in place of `calls`."""

    output: str
    sink: Sink
    calls: tuple[StepCall, ...]
    columns: Columns
    ways: tuple[CallPath, ...] = ()

    @property
    def all_calls(self) -> list[StepCall]:
        return [*self.calls, *(hop for way in self.ways for hop in way.hops if isinstance(hop, StepCall))]


class OutputPreparer:
    """An output at work in one task: what it is to get of each chunk."""

    def __init__(
        self, load: OutputLoad, batch: BatchContext, breadcrumb: Breadcrumb, watchdog: Watchdog | None
    ) -> None:
        self._callers = open_callers(load.calls, breadcrumb, watchdog)
        self._ways = load.ways or (CallPath(None, load.calls, load.columns),)
        self._preparers = [Preparer(load.output, load.sink, way.columns, batch) for way in self._ways]

    def prepare(self, chunk: Chunk) -> Deliveries:
        """What this output gets of the chunk; inputs that cannot be delivered fail in it."""
        for caller in self._callers:
            caller.run(chunk)
        return self._preparers[0].deliveries(chunk)

    def come(self, walk: ChunkWalk) -> list[Chunk]:
        """What has come to it, by way."""
        return [walk.end(way) for way in self._ways]

    def prepare_come(self, come: list[Chunk]) -> tuple[Deliveries, Chunk]:
        """What it gets of all that has come to it, and the rows of that as one chunk, with what has failed."""
        while True:
            failed: dict[int, RecordFailure] = {}
            texts = [way.payloads(chunk, failed) for way, chunk in zip(self._preparers, come, strict=True)]
            merged, payloads = _merged(come, texts)
            made = self._preparers[0].named(merged, payloads, failed)
            if not failed:
                merged.failed = {input: failure for chunk in come for input, failure in chunk.failed.items()}
                return made, merged
            for chunk in come:
                chunk.fail(failed)

    def prepare_less(self, chunk: Chunk, failed: dict[int, RecordFailure]) -> Deliveries:
        """The same without inputs that have failed for another output."""
        chunk.fail(failed)
        return self._preparers[0].deliveries(chunk)


def prepare_all(outputs: list[OutputPreparer], chunk: Chunk) -> list[Deliveries]:
    """The deliveries to all outputs. An input that one output cannot even prepare is delivered to none.

    The chunk is left with the inputs of which at least one output gets something.
    """
    if len(outputs) == 1:
        return [outputs[0].prepare(chunk)]
    forks = [chunk.fork() for _ in outputs]
    prepared = [output.prepare(fork) for output, fork in zip(outputs, forks, strict=True)]
    failed = {input: failure for fork in reversed(forks) for input, failure in fork.failed.items()}
    if failed:
        prepared = [output.prepare_less(fork, failed) for output, fork in zip(outputs, forks, strict=True)]
        chunk.fail(failed)
    _keep_delivered(chunk, {input for fork in forks for input in fork.inputs})
    return prepared


def prepare_ways(outputs: list[OutputPreparer], chunk: Chunk, callers: Mapping[int, StepCaller]) -> list[Deliveries]:
    """The same where rows come by several ways."""
    walk = ChunkWalk(chunk, callers)
    come = [output.come(walk) for output in outputs]
    prepared = [output.prepare_come(each) for output, each in zip(outputs, come, strict=True)]
    failed = {input: failure for _, made in reversed(prepared) for input, failure in made.failed.items()}
    if failed:
        for each in (each for chunks in come for each in chunks):
            each.fail(failed)
        prepared = [output.prepare_come(each) for output, each in zip(outputs, come, strict=True)]
        chunk.fail(failed)
    _keep_delivered(chunk, {input for _, made in prepared for input in made.inputs})
    return [deliveries for deliveries, _ in prepared]


def _merged(chunks: Sequence[Chunk], texts: Sequence[list[bytes]]) -> tuple[Chunk, list[bytes]]:
    """The rows of several chunks of the same records, those of one input together, in the order of the chunks."""
    if len(chunks) == 1:
        return chunks[0], texts[0]
    rows = sorted((input, at, row) for at, chunk in enumerate(chunks) for row, input in enumerate(chunk.inputs))
    documents = [chunks[at].documents[row] for _, at, row in rows]
    befores = [chunks[at].befores[row] for _, at, row in rows]
    merged = Chunk(chunks[0].records, [input for input, _, _ in rows], documents, befores)
    return merged, [texts[at][row] for _, at, row in rows]


def _keep_delivered(chunk: Chunk, delivered: set[int]) -> None:
    if gone := chunk.count_inputs() - len(delivered):
        chunk.filtered[EVERY_OUTPUT] += gone
        chunk.keep([row for row, input in enumerate(chunk.inputs) if input in delivered])


class UnitDelivery:
    """All outputs of one unit, at work in one task."""

    def __init__(
        self, sinks: Mapping[str, Sink], batch: BatchContext, unit: str, report: SegmentReport, closing: ExitStack
    ) -> None:
        _begin_once(batch, unit)
        self._writers = [OutputWriter(output, sink, batch, unit, report) for output, sink in sinks.items()]
        has_both = len({sink.may_refuse for sink in sinks.values()}) > 1
        self._first = [one for one in self._writers if one.may_refuse or not has_both]
        self._last = [one for one in self._writers if one not in self._first]
        self._waiting = {one.output: DeliveryBuffer(shares=len(self._last)) for one in self._last}
        is_kept = has_both and batch.strategy.has_marks  # what is refused, before the others begin
        for one in self._first:
            one.open(closing, RefusedFile(batch, one.output, unit) if is_kept else None)
        self._closing = closing
        self._report = report

    def give(self, chunk: Chunk, deliveries: Sequence[Deliveries]) -> None:
        """Hand on what each output is to get, in the order of the outputs."""
        if len(deliveries) > 1:
            siblings = {one.output: each.source.inputs for one, each in zip(self._writers, deliveries, strict=True)}
            for each in deliveries:
                each.source.siblings = siblings
        for one, each in zip(self._writers, deliveries, strict=True):
            if one.output in self._waiting:
                self._waiting[one.output].add(each)
            else:
                one.load(each)

    def finish(self) -> None:
        for one in self._first:
            one.finish()
        crash.here(CrashPoint.REFUSING_SINKS_DONE)
        refused = frozenset(self._report.refused)  # by these; what one of the others refuses is its own affair
        for one in self._last:
            one.open(self._closing, None)
            for each in self._waiting[one.output]:
                one.load(_without(each, refused))
            self._waiting[one.output].clear()
            one.finish()


class OutputWriter:
    """One output of one unit."""

    def __init__(self, output: str, sink: Sink, batch: BatchContext, unit: str, report: SegmentReport) -> None:
        self.output = output
        self.may_refuse = sink.may_refuse
        self._sink = sink
        self._batch = batch
        self._unit = unit
        self._report = report
        self._digest = Digest()
        self._refused: RefusedFile | None = None

    def open(self, closing: ExitStack, refused: RefusedFile | None) -> None:
        self._refused = refused
        with self._faults():
            self._writer = self._sink.writer(self._batch.place(self.output, self._unit))
        closing.callback(self._writer.close)

    def load(self, deliveries: Deliveries) -> None:
        if not len(deliveries):
            return
        deliveries.source.kin = {
            input: [deliveries.delivery_ids[row] for row in rows]
            for input, rows in deliveries.source.families().items()
        }
        self._digest.add_many(deliveries.delivery_ids)
        self._report.counts.delivered[self.output] += len(deliveries)
        if self._refused is not None and self._refused.known:
            deliveries = self._without_known(deliveries, self._refused.known)
        with self._faults():
            self._note(self._writer.write(deliveries))

    def finish(self) -> None:
        with self._faults():
            self._note(self._writer.finish())
        if self._refused is not None:
            self._refused.write()
        self._report.counts.digests[self.output] = self._digest

    def _without_known(self, deliveries: Deliveries, known: Mapping[bytes, RecordFailure]) -> Deliveries:
        """What was refused before is not offered again: other outputs have been given the rest already."""
        kept = []
        for at, delivery_id in enumerate(deliveries.delivery_ids):
            if (failure := known.get(delivery_id)) is None:
                kept.append(at)
            else:
                self._fail(deliveries, at, failure)
        return deliveries if len(kept) == len(deliveries) else deliveries.only(kept)

    def _note(self, refusals: Iterable[Refusal]) -> None:
        for refusal in refusals:
            failure = RecordFailure(refusal.code, self.output, bounded(refusal.exception), bounded(refusal.message))
            self._fail(refusal.deliveries, refusal.at, failure)

    def _fail(self, deliveries: Deliveries, at: int, failure: RecordFailure) -> None:
        chunk, delivery_id = deliveries.source, deliveries.delivery_ids[at]
        input = chunk.inputs[at]
        outputs, kin = chunk.outputs_of(input), chunk.kin.get(input, ())
        self._report.refuse(chunk.records, input, failure, self.output, delivery_id, outputs, kin)
        self._report.counts.delivered[self.output] -= 1
        self._digest.remove(delivery_id)
        if self._refused is not None:
            self._refused.add(delivery_id, failure)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except SinkError as error:
            needs_person = isinstance(error, NeedsPerson)
            text = encode_fault(
                self._batch.nonce, error.code, self.output, error.target, str(error), needs_person=needs_person
            )
            raise WorkerFault(text) from error


def _begin_once(batch: BatchContext, unit: str) -> None:
    """At most once: Spark may run a task again whose worker has died, and what that one wrote is unknown."""
    if batch.strategy.may_repeat:
        return
    try:
        (Path(batch.directory) / f"{sha256(unit.encode()).hexdigest()}.begun").touch(exist_ok=False)
    except FileExistsError as error:
        text = f"an earlier try at {unit} has died; at most once means that it is not written again"
        raise WorkerFault(encode_fault(batch.nonce, ErrorCode.UNCATEGORISED, "", "", text)) from error


def _without(deliveries: Deliveries, refused: Collection[Coordinates]) -> Deliveries:
    """Those of inputs of which nothing was refused."""
    if not refused:
        return deliveries
    chunk = deliveries.source
    kept = [at for at, input in enumerate(chunk.inputs) if chunk.records.coordinates(input) not in refused]
    return deliveries if len(kept) == len(deliveries) else deliveries.only(kept)


class WorkerFault(Exception):
    """Carries a classified error to the driver, which gets nothing but this text."""
