"""Calls the functions of `each` steps with one document at a time, each call on its own and within its time limit.

The limit is watched by a thread (`Watchdog`), which looks at how long the present call has been running. One that is
over its time is interrupted by a signal, whose handler raises `OverTime` inside it. A call that does not come back even
then (it is inside C code, or catches everything) ends the worker; its breadcrumb says which record it was at, so the
batch need not be searched for it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import FrameType
from typing import Any

from towpath.flow.delivery.ids import DeliveryIds
from towpath.flow.documents.reader import Document
from towpath.flow.documents.splice import copied
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.graph.nodes import InputFilter
from towpath.flow.worker.breadcrumb import Breadcrumb
from towpath.flow.worker.context import Reentry
from towpath.flow.worker.records import Chunk, RecordColumns

STUCK_EXIT = 70
LOOKS_PER_LIMIT = 10
LONGEST_LOOK_S = 1.0
LEAST_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class StepCall:
    """One `each` step as it goes to the workers."""

    step: str
    function: Callable[..., Any]
    timeout_s: float | None
    wants_record: bool
    takes: InputFilter
    topic_ids: Mapping[str, str]
    ids: DeliveryIds  # of inputs: of what is delivered to no output yet
    reentry: Reentry | None = None
    hash: str = ""  # of the batch
    outputs: tuple[str, ...] = ()  # names, where the function gives documents by name


class StepCaller:
    """Calls the function of one step for every row of a chunk."""

    def __init__(self, call: StepCall, breadcrumb: Breadcrumb, watchdog: Watchdog | None) -> None:
        self._call = call
        self._breadcrumb = breadcrumb
        self._watchdog = watchdog if call.timeout_s is not None else None

    def run(self, chunk: Chunk) -> None:
        """Replace the documents of the chunk by what the function gives for them."""
        came = chunk.count_inputs()
        before = None if self._call.reentry is None else set(chunk.inputs)
        failed: dict[int, RecordFailure] = {}
        self._call_all(chunk, failed)
        chunk.columns = []
        chunk.fail(failed)
        if gone := came - len(failed) - chunk.count_inputs():
            chunk.filtered[self._call.step] += gone
            if before is not None:
                chunk.gone |= dict.fromkeys(before.difference(chunk.inputs, failed), self._call.step)

    def _call_all(self, chunk: Chunk, failed: dict[int, RecordFailure]) -> None:
        """Inputs, documents as they were and documents as they are, for each that the function gives."""
        breadcrumb, takes, records = self._breadcrumb, self._call.takes, chunk.records
        takes_everything = takes.is_everything
        topics, partitions, offsets = records.topics, records.partitions, records.offsets
        reentry = self._call.reentry
        shown = records if reentry is None else reentry.as_first_read(records)
        shown_topics = shown.topics
        call = self._caller(shown)
        inputs: list[int] = []
        befores: list[Document] = []
        documents: list[Document] = []
        tags: list[int | str] = []
        outputs = self._call.outputs
        breadcrumb.enter(self._call.step)
        for input, document, before in zip(chunk.inputs, chunk.documents, chunk.befores, strict=True):
            if not (takes_everything or takes.has(shown_topics[input], document)):
                continue
            if before is document:
                document = copied(document)
            breadcrumb.at(topics[input], partitions[input], offsets[input])
            try:
                given = call(document, input)
            except (KeyboardInterrupt, MemoryError):
                raise
            except BaseException as error:
                failed.setdefault(input, self._failure(error))
                continue
            if outputs and given is not None:
                named = self._by_name(given, input, failed)
                inputs += [input] * len(named)
                befores += [before] * len(named)
                documents += [one for _, one in named]
                tags += [name for name, _ in named]
            elif type(given) is dict:
                inputs.append(input)
                befores.append(before)
                documents.append(given)
            elif given is not None:
                several = self._several(given, input, failed)
                inputs += [input] * len(several)
                befores += [before] * len(several)
                documents += several
        breadcrumb.leave()
        chunk.inputs, chunk.befores, chunk.documents = inputs, befores, documents
        chunk.tags = tags if outputs else None

    def _caller(self, records: RecordColumns) -> Callable[[Document, int], Any]:
        """The function with what it wants to know, and its time limit."""
        function, watchdog, limit_s = self._call.function, self._watchdog, self._call.timeout_s or 0.0

        def told(document: Document, input: int) -> Any:
            return function(document, self._info(records, input))

        def untold(document: Document, input: int) -> Any:
            return function(document)

        inner = told if self._call.wants_record else untold
        if watchdog is None:
            return inner

        def limited(document: Document, input: int) -> Any:
            try:
                watchdog.begin(limit_s)
                return inner(document, input)
            finally:
                watchdog.end()

        return limited

    def _failure(self, error: BaseException) -> RecordFailure:
        if isinstance(error, OverTime):
            message = f"took longer than {self._call.timeout_s:g} s for one record"
            return RecordFailure(ErrorCode.TRANSFORM_FAILED, self._call.step, "OverTime", message)
        return RecordFailure.of(ErrorCode.TRANSFORM_FAILED, self._call.step, error)

    def _info(self, records: RecordColumns, input: int) -> object:
        topic, partition, offset = records.topic_keys[input], records.partitions[input], records.offsets[input]
        id = self._call.ids.of(self._call.topic_ids.get(topic, topic), partition, offset, 0)
        return records.info(input, id.hex(), self._call.hash)

    def _several(self, given: Any, input: int, failed: dict[int, RecordFailure]) -> Sequence[Document]:
        if isinstance(given, list | tuple) and all(type(one) is dict for one in given):
            return given
        what = f"gave {type(given).__name__}; an each step returns a dict, a list of dicts, or None"
        return self._refuse(what, input, failed)

    def _by_name(self, given: Any, input: int, failed: dict[int, RecordFailure]) -> Sequence[tuple[str, Document]]:
        """The documents with the names of the outputs for which they are."""
        names = self._call.outputs
        if type(given) is not dict or not given.keys() <= set(names):
            what = f"a dict with {', '.join(map(repr, given))}" if type(given) is dict else type(given).__name__
            self._refuse(f"gave {what}; it returns a dict by output, of {', '.join(map(repr, names))}", input, failed)
            return ()
        found: list[tuple[str, Document]] = []
        for name in names:
            value = given.get(name)
            several = () if value is None else (value,) if type(value) is dict else self._several(value, input, failed)
            found += [(name, one) for one in several]
        return found

    def _refuse(self, what: str, input: int, failed: dict[int, RecordFailure]) -> Sequence[Document]:
        failed.setdefault(input, RecordFailure(ErrorCode.TRANSFORM_FAILED, self._call.step, "TypeError", what))
        return ()


def open_callers(calls: Sequence[StepCall], breadcrumb: Breadcrumb, watchdog: Watchdog | None) -> list[StepCaller]:
    return [StepCaller(call, breadcrumb, watchdog) for call in calls]


def open_watchdog(calls: Sequence[StepCall], closing: ExitStack) -> Watchdog | None:
    """One for all functions of a segment that have a time limit."""
    limits_s = [call.timeout_s for call in calls if call.timeout_s is not None]
    if not limits_s:
        return None
    watchdog = Watchdog(limits_s)
    closing.callback(watchdog.close)
    return watchdog


class Watchdog:
    """Watches the calls of a worker's main thread, the one that gets signals. One for all functions of a segment."""

    def __init__(self, limits_s: Sequence[float]) -> None:
        self._look_s = min(LONGEST_LOOK_S, min(limits_s) / LOOKS_PER_LIMIT)
        self._call: tuple[float, float] | None = None  # when it began, and its limit
        self._ended = threading.Event()
        self._main = threading.main_thread().ident or 0
        self._handler = signal.signal(signal.SIGALRM, self._interrupt)
        self._thread = threading.Thread(target=self._watch, name="towpath-watchdog", daemon=True)
        self._thread.start()

    def begin(self, limit_s: float) -> None:
        self._call = (time.monotonic(), limit_s)

    def end(self) -> None:
        self._call = None

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        signal.signal(signal.SIGALRM, self._handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        # The call may have come to its end while the signal was on its way, and another may have begun.
        if _over_s(self._call) > 0:
            raise OverTime

    def _watch(self) -> None:
        interrupted: tuple[float, float] | None = None
        interrupted_at = 0.0
        while not self._ended.wait(self._look_s):
            call = self._call
            if call is None or _over_s(call) <= 0:
                continue
            if call is not interrupted:
                interrupted, interrupted_at = call, time.monotonic()
                signal.pthread_kill(self._main, signal.SIGALRM)
            elif time.monotonic() - interrupted_at > max(call[1], LEAST_GRACE_S):
                os._exit(STUCK_EXIT)


class OverTime(BaseException):
    """The call took longer than its limit. No `Exception`: a function that catches all of these is interrupted too."""


def _over_s(call: tuple[float, float] | None) -> float:
    """By how much a call has passed its limit; not above 0: it has not."""
    return 0.0 if call is None else time.monotonic() - call[0] - call[1]
