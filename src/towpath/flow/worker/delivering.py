"""Gives the deliveries of one unit to its sinks: those that may refuse something first, the others without that.

Step 4 of docs/explanation/delivery.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path

from towpath import crash
from towpath.crash import CrashPoint
from towpath.errors import NeedsPerson, SinkError
from towpath.flow.codes import ErrorCode
from towpath.flow.delivery import Digest
from towpath.flow.failure import Failure, bounded
from towpath.flow.fault import encode_fault
from towpath.flow.sinks.kept import Kept
from towpath.flow.sinks.sink import Deliveries, Refusal, Sink
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.chunk import Chunk
from towpath.flow.worker.refused import RefusedFile
from towpath.flow.worker.report import Coordinates, Report


class WorkerFault(Exception):
    """Carries a classified error to the driver, which gets nothing but this text."""


class Delivering:
    """All outputs of one unit, at work in one task."""

    def __init__(
        self, sinks: Mapping[str, Sink], batch: BatchPlace, unit: str, report: Report, closing: ExitStack
    ) -> None:
        _begin_once(batch, unit)
        self._writings = [Writing(output, sink, batch, unit, report) for output, sink in sinks.items()]
        has_both = len({sink.may_refuse for sink in sinks.values()}) > 1
        self._firsts = [one.may_refuse or not has_both for one in self._writings]
        lasts = [one for one, is_first in zip(self._writings, self._firsts, strict=True) if not is_first]
        self._waiting = {one.output: Kept(shares=len(lasts)) for one in lasts}  # until the first are done
        self._is_kept = has_both and batch.strategy.has_marks  # what is refused, before the others begin
        for one, is_first in zip(self._writings, self._firsts, strict=True):
            if is_first:
                one.open(closing, RefusedFile(batch, one.output, unit) if self._is_kept else None)
        self._closing = closing
        self._report = report

    def give(self, chunk: Chunk, deliveries: Sequence[Deliveries]) -> None:
        """Hand on what each output is to get, in the order of the outputs."""
        if len(deliveries) > 1:
            siblings = {one.output: each.source.inputs for one, each in zip(self._writings, deliveries, strict=True)}
            for each in deliveries:
                each.source.siblings = siblings
        for one, each, is_first in zip(self._writings, deliveries, self._firsts, strict=True):
            if is_first:
                one.load(each)
            else:
                self._waiting[one.output].add(each)

    def finish(self) -> None:
        for one, is_first in zip(self._writings, self._firsts, strict=True):
            if is_first:
                one.finish()
        crash.here(CrashPoint.REFUSING_SINKS_DONE)
        refused = frozenset(self._report.refused)  # by these; what one of the others refuses is its own affair
        for one in (one for one in self._writings if one.output in self._waiting):
            one.open(self._closing, None)
            for each in self._waiting[one.output]:
                one.load(_without(each, refused))
            self._waiting[one.output].clear()
            one.finish()


class Writing:
    """One output of one unit."""

    def __init__(self, output: str, sink: Sink, batch: BatchPlace, unit: str, report: Report) -> None:
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

    def _without_known(self, deliveries: Deliveries, known: Mapping[bytes, Failure]) -> Deliveries:
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
            failure = Failure(refusal.code, self.output, bounded(refusal.exception), bounded(refusal.message))
            self._fail(refusal.deliveries, refusal.at, failure)

    def _fail(self, deliveries: Deliveries, at: int, failure: Failure) -> None:
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


def _begin_once(batch: BatchPlace, unit: str) -> None:
    """At most once: Spark may try a task again whose worker has died, and nobody knows what that one has written."""
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
