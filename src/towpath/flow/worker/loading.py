"""The end of a plan: rows become deliveries, these go to their sinks, and what is refused goes to the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from towpath.errors import NeedsPerson, SinkError
from towpath.flow.delivery import Digest
from towpath.flow.failure import Failure, bounded
from towpath.flow.fault import encode_fault
from towpath.flow.sinks.sink import Deliveries, Refusal, Sink
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.breadcrumb import Breadcrumb
from towpath.flow.worker.calling import Call, open_callers
from towpath.flow.worker.chunk import Chunk
from towpath.flow.worker.preparing import Columns, Preparer
from towpath.flow.worker.report import Report
from towpath.flow.worker.watchdog import Watchdog

EVERY_OUTPUT = "every output"  # has filtered it, each by functions of its own


class WorkerFault(Exception):
    """Carries a classified error to the driver, which gets nothing but this text."""


@dataclass(frozen=True, slots=True)
class Load:
    """One output: the calls that only it needs, and the sink."""

    output: str
    sink: Sink
    calls: tuple[Call, ...]
    columns: Columns


class OpenLoad:
    """A load at work in one task."""

    def __init__(
        self,
        load: Load,
        batch: BatchPlace,
        unit: str,
        breadcrumb: Breadcrumb,
        watchdog: Watchdog | None,
        report: Report,
        closing: ExitStack,
    ) -> None:
        self.output = load.output
        self._nonce = batch.nonce
        self._report = report
        self._callers = open_callers(load.calls, breadcrumb, watchdog)
        self._preparer = Preparer(load.output, load.sink, load.columns, batch)
        with self._faults():
            self._writer = load.sink.writer(batch.place(load.output, unit))
        closing.callback(self._writer.close)
        self._digest = Digest()

    def prepare(self, chunk: Chunk) -> Deliveries:
        """What this output gets of the chunk; inputs that cannot be delivered fail in it."""
        for caller in self._callers:
            caller.run(chunk)
        return self._preparer.deliveries(chunk)

    def prepare_less(self, chunk: Chunk, failed: dict[int, Failure]) -> Deliveries:
        """The same without inputs that have failed for another output."""
        chunk.fail(failed)
        return self._preparer.deliveries(chunk)

    def load(self, deliveries: Deliveries) -> None:
        if not len(deliveries):
            return
        self._digest.add_many(deliveries.delivery_ids)
        self._report.counts.delivered[self.output] += len(deliveries)
        with self._faults():
            self._note(self._writer.write(deliveries))

    def finish(self) -> None:
        with self._faults():
            self._note(self._writer.finish())
        self._report.counts.digests[self.output] = self._digest

    def _note(self, refusals: Iterable[Refusal]) -> None:
        counts = self._report.counts
        for refusal in refusals:
            chunk = refusal.deliveries.source
            delivery_id = refusal.deliveries.delivery_ids[refusal.at]
            input = chunk.inputs[refusal.at]
            failure = Failure(refusal.code, self.output, bounded(refusal.exception), bounded(refusal.message))
            # An input of which several deliveries are refused, by one output or by two, has failed once.
            is_first = self._report.refuse(chunk.records.coordinates(input))
            self._report.fail(chunk.records, {input: failure}, self.output, {input: delivery_id}, is_counted=is_first)
            counts.delivered[self.output] -= 1
            self._digest.remove(delivery_id)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except SinkError as error:
            needs_person = isinstance(error, NeedsPerson)
            text = encode_fault(
                self._nonce, error.code, self.output, error.target, str(error), needs_person=needs_person
            )
            raise WorkerFault(text) from error


def load_all(ends: list[OpenLoad], chunks: Iterator[Chunk], report: Report) -> None:
    """Load every chunk to every output. An input that one output cannot even prepare is delivered to none."""
    for chunk in chunks:
        prepared = [ends[0].prepare(chunk)] if len(ends) == 1 else _prepared(ends, chunk)
        report.add(chunk)
        for end, deliveries in zip(ends, prepared, strict=True):
            end.load(deliveries)
    for end in ends:
        end.finish()


def _prepared(ends: list[OpenLoad], chunk: Chunk) -> list[Deliveries]:
    """The deliveries to several outputs; the chunk is left with the inputs of which at least one gets something."""
    forks = [chunk.fork() for _ in ends]
    prepared = [end.prepare(fork) for end, fork in zip(ends, forks, strict=True)]
    failed = {input: failure for fork in reversed(forks) for input, failure in fork.failed.items()}
    if failed:
        prepared = [end.prepare_less(fork, failed) for end, fork in zip(ends, forks, strict=True)]
        chunk.fail(failed)
    delivered = {input for fork in forks for input in fork.inputs}
    if gone := chunk.count_inputs() - len(delivered):
        chunk.filtered[EVERY_OUTPUT] += gone
        chunk.keep([row for row, input in enumerate(chunk.inputs) if input in delivered])
    return prepared
