"""A topic as a sink: what a flow has made goes on as records.

Exactly once where the flow is: the records of a unit and its mark are one transaction of the log (`topic_marked.py`).
Otherwise they are appended as they come, and a batch that is tried again appends them again. Each says in its headers
which delivery it is, so that who reads can leave out what came twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from towpath.errors import BadName, BadRecord, BadSettings, PartlyAppended, SinkError, UnknownTopic
from towpath.flow.failures import ErrorCode, bounded
from towpath.flow.sinks.sink import Deliveries, Refusal, Writer, WriterContext
from towpath.flow.sinks.template import Template
from towpath.flow.sinks.topic.logs import log_errors, opened
from towpath.flow.sinks.topic.writer import MarkedTopicWriter, create, records_of
from towpath.settings import Settings


class TopicSink:
    """Appends to the topic of that name, or to one for each value of its fields.

    The key is that of the input, or a template's. A missing topic is an error, unless `partitions` says how it is made.
    """

    id = None
    is_idempotent = False  # without marks
    has_marks = True
    may_refuse = False

    def __init__(self, target: str, *, key: str | None = None, partitions: int | None = None) -> None:
        self.target = Template(target)
        self.routing = Template(key) if key is not None else None  # a key decides the partition
        self.partitions = partitions

    def check(self, settings: Settings) -> None:
        with log_errors(str(self)), opened(settings) as log:
            if not self.target.is_fixed:
                log.topics()
                return
            name = self.target.filler()({})
            try:
                log.topic(name)
            except UnknownTopic as error:
                if self.partitions is None:
                    raise BadSettings(f"{error}; or give partitions= and it is made") from error
                create(log, name, self.partitions)

    def writer(self, place: WriterContext) -> Writer:
        return MarkedTopicWriter(self, place) if place.strategy.has_marks else TopicWriter(self, place.settings)

    def __str__(self) -> str:
        return f"topic {self.target}"

    def __repr__(self) -> str:
        return f"<{self}>"


class TopicWriter:
    """Appends as it is handed; nothing is kept back."""

    def __init__(self, sink: TopicSink, settings: Settings) -> None:
        self._sink = sink
        self._closing = ExitStack()
        with log_errors(str(sink)):
            self._log = self._closing.enter_context(opened(settings))

    def write(self, deliveries: Deliveries) -> list[Refusal]:
        refusals: list[Refusal] = []
        for target, places in deliveries.by_target().items():
            with log_errors(str(self._sink)):
                refusals += self._write(target, deliveries, places)
        return refusals

    def finish(self) -> list[Refusal]:
        return []

    def close(self) -> None:
        self._closing.close()

    def _write(self, target: str, deliveries: Deliveries, places: Sequence[int]) -> list[Refusal]:
        try:
            return self._append(target, deliveries, places)
        except UnknownTopic as error:
            if self._sink.partitions is not None:
                create(self._log, target, self._sink.partitions)
                return self._append(target, deliveries, places)
            return self._nowhere(deliveries, places, error)
        except BadName as error:
            return self._nowhere(deliveries, places, error)

    def _nowhere(self, deliveries: Deliveries, places: Sequence[int], error: Exception) -> list[Refusal]:
        if self._sink.target.is_fixed:
            raise SinkError(ErrorCode.TOPIC_NOT_FOUND, str(self._sink), str(error)) from error
        return [_refusal(deliveries, at, error) for at in places]

    def _append(self, target: str, deliveries: Deliveries, places: Sequence[int]) -> list[Refusal]:
        """Append these; one that no topic, or not this topic, can hold is refused alone."""
        if not places:
            return []
        try:
            self._log.append(target, records_of(deliveries, places))
        except BadRecord as error:
            if len(places) == 1:
                return [_refusal(deliveries, places[0], error)]
            rest = places
        except PartlyAppended as error:
            if error.unknown:
                raise
            # A broker refuses records together that came together: one that is too large takes its neighbours with it.
            done = frozenset(error.appended)
            rest = [at for number, at in enumerate(places) if number not in done]
        else:
            return []
        half = len(rest) // 2
        return [*self._append(target, deliveries, rest[:half]), *self._append(target, deliveries, rest[half:])]


def _refusal(deliveries: Deliveries, at: int, error: Exception) -> Refusal:
    return Refusal(deliveries, at, ErrorCode.ITEM_REFUSED, type(error).__name__, bounded(str(error)))
