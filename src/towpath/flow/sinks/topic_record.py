"""Deliveries as records of a topic, and the topics that they go to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from towpath.errors import BadName, SinkError, TopicExists, UnknownTopic
from towpath.flow.codes import ErrorCode
from towpath.flow.sinks.sink import Deliveries
from towpath.log import Log, NewRecord

DELIVERY = "towpath.delivery"
ORIGIN = "towpath.origin"
OVERHEAD = 256  # of headers and the like: about as many bytes for each record


class Targets:
    """The topics that deliveries name. One that is missing is made, if it is known how."""

    def __init__(self, log: Log, sink: str, *, is_fixed: bool, partitions: int | None) -> None:
        self._log = log
        self._sink = sink
        self._is_fixed = is_fixed
        self._partitions = partitions
        self._found: dict[str, int | Exception] = {}

    def partitions(self, name: str) -> int | Exception:
        """How many partitions it has, or why nothing can go there."""
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._look(name)
        if isinstance(found, Exception) and self._is_fixed:
            raise SinkError(ErrorCode.TOPIC_NOT_FOUND, self._sink, str(found)) from found
        return found

    def _look(self, name: str) -> int | Exception:
        try:
            return self._log.topic(name).partitions
        except UnknownTopic as error:
            if self._partitions is None:
                return error
        except BadName as error:
            return error
        try:
            create(self._log, name, self._partitions)
        except BadName as error:
            return error
        return self._log.topic(name).partitions


def create(log: Log, name: str, partitions: int) -> None:
    with suppress(TopicExists):  # another task was faster
        log.create_topic(name, partitions)


def records_of(deliveries: Deliveries, places: Iterable[int]) -> list[NewRecord]:
    """The records at these places."""
    payloads, ids, delivery_ids = deliveries.payloads, deliveries.ids, deliveries.delivery_ids
    times, keys, routings = deliveries.timestamps_ms, deliveries.keys, deliveries.routings
    return [
        NewRecord(
            payloads[at],
            keys[at] if routings is None else routings[at].encode(),
            ((DELIVERY, delivery_ids[at].hex().encode()), (ORIGIN, ids[at].encode())),
            times[at] if times[at] > 0 else None,
        )
        for at in places
    ]


def sizes_of(deliveries: Deliveries) -> Sequence[int]:
    """About how many bytes each takes in a log: the same on every attempt."""
    keys = deliveries.keys if deliveries.routings is None else deliveries.routings
    return [len(payload) + len(key or b"") + OVERHEAD for payload, key in zip(deliveries.payloads, keys, strict=True)]
