"""Counts records by reading them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from towpath.errors import OffsetOutOfRange, TopicReplaced, UnknownPartition, UnknownTopic
from towpath.flow.audit.batch_row import StageRows
from towpath.flow.audit.tally import Tally
from towpath.flow.audit.view import TopicState, View, topic_state
from towpath.flow.positions import Range, Spot
from towpath.log.log import Log

Progress = Callable[[int], None]  # told from time to time how many records were read so far
TELL_EVERY = 10_000
ATTEMPTS = 3
GONE = 1 << 62  # before this offset nothing is kept: the topic is another one, or none


def in_flight(stage: StageRows, topics: dict[str, TopicState]) -> list[Range]:
    """From where the stage has come to, to where its topics end. A partition that it does not know yet begins at 0."""
    stops = stage.stops
    return [
        Range(topic.name, topic.id, number, min(stops.get((topic.id, number), 0), end), end)
        for name, id in stage.current_ids.items()
        if (topic := topics[name]).id == id
        for number, end in sorted(topic.ends.items())
    ]


class Counter:
    """Reads every range of a view once."""

    def __init__(self, log: Log, progress: Progress = lambda done: None) -> None:
        self._log = log
        self._progress = progress
        self._done = 0

    def count(self, view: View) -> dict[Spot, Tally]:
        edges: dict[Spot, set[int]] = {}
        names: dict[str, str] = {}
        for stage in view.stages:
            gaps = (gap.place for gap in stage.gaps)
            read = (place for batch in stage.batches for place in batch.positions)
            for place in chain(read, gaps, in_flight(stage, view.topics)):
                edges.setdefault(place.spot, set()).update((place.start, place.stop))
                names[place.topic_id] = place.topic
        return {spot: self._tally(view, names[spot[0]], spot, found) for spot, found in sorted(edges.items())}

    def _tally(self, view: View, name: str, spot: Spot, edges: set[int]) -> Tally:
        topic, (id, number) = view.topics.get(name, TopicState(name)), spot
        if topic.id != id or number not in topic.ends:
            return Tally(edges, GONE)
        for _ in range(ATTEMPTS):
            try:
                tally = self._read(topic, number, edges)
            except OffsetOutOfRange:  # deleted since its start was asked for
                topic = topic_state(self._log, name)
                continue
            except (TopicReplaced, UnknownTopic, UnknownPartition):
                break
            # What was deleted while it was read was not counted, perhaps.
            now = topic_state(self._log, name)
            if now.id == id:
                tally.kept_from = max(tally.kept_from, now.starts.get(number, GONE))
                return tally
        return Tally(edges, GONE)

    def _read(self, topic: TopicState, number: int, edges: set[int]) -> Tally:
        tally = Tally(edges, topic.starts.get(number, 0))
        first = max(tally.edges[0], tally.kept_from)
        last = min(tally.edges[-1], topic.ends.get(number, 0))
        if first < last:
            tally.add(self._offsets(topic.name, number, first, last))
        return tally

    def _offsets(self, topic: str, partition: int, first: int, last: int) -> Iterator[int]:
        for record in self._log.read(topic, partition, first, last):
            self._done += 1
            if self._done % TELL_EVERY == 0:
                self._progress(self._done)
            yield record.offset
