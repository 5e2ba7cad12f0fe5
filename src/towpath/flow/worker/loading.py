"""The end of a plan: rows become deliveries, which go to their sinks or, where it must be decided first, into files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from towpath.flow.failure import Failure
from towpath.flow.sinks.sink import Deliveries, Sink
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.breadcrumb import Breadcrumb
from towpath.flow.worker.calling import Call, Caller, open_by_call, open_callers
from towpath.flow.worker.chunk import Chunk
from towpath.flow.worker.decision import DecisionFile
from towpath.flow.worker.delivering import Delivering
from towpath.flow.worker.preparing import Columns, Preparer
from towpath.flow.worker.report import Report
from towpath.flow.worker.watchdog import Watchdog
from towpath.flow.worker.ways import Alternatives, Walk, Way

EVERY_OUTPUT = "every output"  # has filtered it, each by functions of its own


@dataclass(frozen=True, slots=True)
class Load:
    """One output: the calls that only it needs, and the sink. With `ways` rows come by these in place of `calls`."""

    output: str
    sink: Sink
    calls: tuple[Call, ...]
    columns: Columns
    ways: tuple[Way, ...] = ()

    @property
    def all_calls(self) -> list[Call]:
        return [*self.calls, *(hop for way in self.ways for hop in way.hops if isinstance(hop, Call))]


@dataclass(frozen=True, slots=True)
class Deliver:
    """Ends with deliveries: to the sinks, or with `decides` to a file from which they are loaded later."""

    loads: tuple[Load, ...]
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
        batch: BatchPlace,
        breadcrumb: Breadcrumb,
        watchdog: Watchdog | None,
        report: Report,
        closing: ExitStack,
    ) -> None:
        first = next(chunks, None)
        if first is None:
            return  # no input, no unit
        unit = self.unit(first, task)
        outputs = [Prepared(load, batch, breadcrumb, watchdog) for load in self.loads]
        sinks = {load.output: load.sink for load in self.loads}
        end = DecisionFile(batch, unit, closing) if self.decides else Delivering(sinks, batch, unit, report, closing)
        callers = open_by_call([call for load in self.loads for call in load.all_calls], breadcrumb, watchdog)
        has_ways = any(load.ways for load in self.loads)
        for chunk in _then(first, chunks):
            deliveries = prepare_ways(outputs, chunk, callers) if has_ways else prepare_all(outputs, chunk)
            if batch.reentry is not None:
                named = zip(self.loads, deliveries, strict=True)
                deliveries = [batch.reentry.missing(load.output, each) for load, each in named]
            report.add(chunk)
            end.give(chunk, deliveries)
        end.finish()


class Prepared:
    """An output at work in one task: what it is to get of each chunk."""

    def __init__(self, load: Load, batch: BatchPlace, breadcrumb: Breadcrumb, watchdog: Watchdog | None) -> None:
        self._callers = open_callers(load.calls, breadcrumb, watchdog)
        self._preparer = Preparer(load.output, load.sink, load.columns, batch)
        self._ways = load.ways or (Way(None, load.calls, load.columns),)
        self._alternatives = Alternatives(load.output, load.sink, self._ways, batch)

    def prepare(self, chunk: Chunk) -> Deliveries:
        """What this output gets of the chunk; inputs that cannot be delivered fail in it."""
        for caller in self._callers:
            caller.run(chunk)
        return self._preparer.deliveries(chunk)

    def come(self, walk: Walk) -> list[Chunk]:
        """What has come to it, by way."""
        return [walk.end(way) for way in self._ways]

    def prepare_come(self, come: list[Chunk]) -> tuple[Deliveries, Chunk]:
        return self._alternatives.deliveries(come)

    def prepare_less(self, chunk: Chunk, failed: dict[int, Failure]) -> Deliveries:
        """The same without inputs that have failed for another output."""
        chunk.fail(failed)
        return self._preparer.deliveries(chunk)


def prepare_all(outputs: list[Prepared], chunk: Chunk) -> list[Deliveries]:
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


def prepare_ways(outputs: list[Prepared], chunk: Chunk, callers: Mapping[int, Caller]) -> list[Deliveries]:
    """The same where rows come by several ways."""
    walk = Walk(chunk, callers)
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


def _keep_delivered(chunk: Chunk, delivered: set[int]) -> None:
    if gone := chunk.count_inputs() - len(delivered):
        chunk.filtered[EVERY_OUTPUT] += gone
        chunk.keep([row for row, input in enumerate(chunk.inputs) if input in delivered])


def _then(first: Chunk, rest: Iterator[Chunk]) -> Iterator[Chunk]:
    yield first
    yield from rest
