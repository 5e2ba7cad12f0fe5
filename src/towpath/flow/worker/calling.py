"""The functions of `each` steps: called with one document at a time, each call on its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from towpath.flow.codes import ErrorCode
from towpath.flow.delivery import DeliveryIds
from towpath.flow.failure import Failure
from towpath.flow.takes import Takes
from towpath.flow.text.changes import copied
from towpath.flow.worker.breadcrumb import Breadcrumb
from towpath.flow.worker.chunk import Chunk, Document
from towpath.flow.worker.records import Records
from towpath.flow.worker.reentry import Reentry
from towpath.flow.worker.watchdog import OverTime, Watchdog


@dataclass(frozen=True, slots=True)
class Call:
    """One `each` step as it goes to the workers."""

    step: str
    function: Callable[..., Any]
    timeout_s: float | None
    wants_record: bool
    takes: Takes
    topic_ids: Mapping[str, str]
    ids: DeliveryIds  # of inputs: of what is delivered to no output yet
    reentry: Reentry | None = None
    hash: str = ""  # of the batch
    outputs: tuple[str, ...] = ()  # names, where the function gives documents by name


class Caller:
    """Calls the function of one step for every row of a chunk."""

    def __init__(self, call: Call, breadcrumb: Breadcrumb, watchdog: Watchdog | None) -> None:
        self._call = call
        self._breadcrumb = breadcrumb
        self._watchdog = watchdog if call.timeout_s is not None else None

    def run(self, chunk: Chunk) -> None:
        """Replace the documents of the chunk by what the function gives for them."""
        came = chunk.count_inputs()
        before = None if self._call.reentry is None else set(chunk.inputs)
        failed: dict[int, Failure] = {}
        self._call_all(chunk, failed)
        chunk.columns = []
        chunk.fail(failed)
        if gone := came - len(failed) - chunk.count_inputs():
            chunk.filtered[self._call.step] += gone
            if before is not None:
                chunk.gone |= dict.fromkeys(before.difference(chunk.inputs, failed), self._call.step)

    def _call_all(self, chunk: Chunk, failed: dict[int, Failure]) -> None:
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

    def _caller(self, records: Records) -> Callable[[Document, int], Any]:
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

    def _failure(self, error: BaseException) -> Failure:
        if isinstance(error, OverTime):
            message = f"took longer than {self._call.timeout_s:g} s for one record"
            return Failure(ErrorCode.TRANSFORM_FAILED, self._call.step, "OverTime", message)
        return Failure.of(ErrorCode.TRANSFORM_FAILED, self._call.step, error)

    def _info(self, records: Records, input: int) -> object:
        topic, partition, offset = records.topic_keys[input], records.partitions[input], records.offsets[input]
        id = self._call.ids.of(self._call.topic_ids.get(topic, topic), partition, offset, 0)
        return records.info(input, id.hex(), self._call.hash)

    def _several(self, given: Any, input: int, failed: dict[int, Failure]) -> Sequence[Document]:
        if isinstance(given, list | tuple) and all(type(one) is dict for one in given):
            return given
        what = f"gave {type(given).__name__}; an each step returns a dict, a list of dicts, or None"
        return self._refuse(what, input, failed)

    def _by_name(self, given: Any, input: int, failed: dict[int, Failure]) -> Sequence[tuple[str, Document]]:
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

    def _refuse(self, what: str, input: int, failed: dict[int, Failure]) -> Sequence[Document]:
        failed.setdefault(input, Failure(ErrorCode.TRANSFORM_FAILED, self._call.step, "TypeError", what))
        return ()


def open_by_call(calls: Sequence[Call], breadcrumb: Breadcrumb, watchdog: Watchdog | None) -> dict[int, Caller]:
    """One for each call, by its identity."""
    return {id(call): Caller(call, breadcrumb, watchdog) for call in calls}


def open_callers(calls: Sequence[Call], breadcrumb: Breadcrumb, watchdog: Watchdog | None) -> list[Caller]:
    return [Caller(call, breadcrumb, watchdog) for call in calls]


def open_watchdog(calls: Sequence[Call], breadcrumb: Breadcrumb, closing: ExitStack) -> Watchdog | None:
    """One for all functions of a segment that have a time limit."""
    limits_s = [call.timeout_s for call in calls if call.timeout_s is not None]
    if not limits_s:
        return None
    watchdog = Watchdog(limits_s, breadcrumb.stuck)
    closing.callback(watchdog.close)
    return watchdog
