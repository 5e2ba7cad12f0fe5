"""Which stages the data of a stream goes through, and whether they have come to its end. Pure.

A stage reads an input of the stream itself, or a topic that an earlier stage has written something of it to. Where the
data of an upload ends for a stage is known in the first case when its senders have finished, in the second when all
stages that write to the topic have come to their own ends: then it is the end of the topic.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from string import Formatter
from typing import NamedTuple

from towpath.boundary.pass_store import Ends
from towpath.errors import BadFlow
from towpath.flow.graph import Stage
from towpath.flow.positions import Positions
from towpath.flow.sinks.topic import TopicSink
from towpath.flow.template import Template


class StageWays(NamedTuple):
    """What a stage reads and writes; a topic that is written may have fields of the document in its name."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[Template, ...]

    @classmethod
    def of(cls, stage: Stage) -> StageWays:
        written = [output.sink.target for output in stage.outputs if isinstance(output.sink, TopicSink)]
        return cls(stage.name, stage.topics, tuple(written))

    def may_write(self, topic: str) -> bool:
        return any(_may_be(template, topic) for template in self.writes)


def _may_be(template: Template, name: str) -> bool:
    """Whether a name may have been made from this one by filling in fields."""
    parts = Formatter().parse(template.text)
    pattern = "".join(re.escape(literal) + ("" if field is None else ".*") for literal, field, _, _ in parts)
    return re.fullmatch(pattern, name, re.DOTALL) is not None


class Written(NamedTuple):
    """A topic between stages: who reads it, and who writes to it."""

    topic: str
    stage: str
    writers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ways:
    """The stages that the data of a stream goes through."""

    direct: Mapping[str, tuple[str, ...]]  # by input: the stages that read its topic
    written: tuple[Written, ...] = ()
    order: tuple[str, ...] = ()  # all of them, writers before readers

    @classmethod
    def of(cls, stream: str, topics: Mapping[str, str], stages: Iterable[StageWays]) -> Ways:
        """`topics` has the topic of each input. `BadFlow` when stages write to each other in a circle."""
        known = {stage.name: stage for stage in stages}
        direct = {
            input: tuple(sorted(name for name, stage in known.items() if topic in stage.reads))
            for input, topic in topics.items()
        }
        order = _reached(stream, {name for names in direct.values() for name in names}, known)
        written = (
            Written(topic, name, tuple(other for other in order if known[other].may_write(topic)))
            for name in order
            for topic in known[name].reads
        )
        return cls(direct, tuple(each for each in written if each.writers), tuple(order))


def _reached(stream: str, first: Collection[str], known: Mapping[str, StageWays]) -> list[str]:
    """The stages that data comes to which these read, writers before readers."""
    before: dict[str, set[str]] = {}
    left = sorted(first)
    while left:
        name = left.pop()
        before.setdefault(name, set())
        for reader, stage in known.items():
            if any(known[name].may_write(topic) for topic in stage.reads):
                left += [reader] if reader not in before else []
                before.setdefault(reader, set()).add(name)
    try:
        return list(TopologicalSorter({name: sorted(before[name]) for name in sorted(before)}).static_order())
    except CycleError as error:
        raise BadFlow(
            f"stream {stream!r}: the end of an upload cannot be told, because stages write to each other in a circle: "
            f"{' → '.join(error.args[1])}"
        ) from error


def latest(ends: Sequence[Mapping[int, int]]) -> dict[int, int]:
    """The end of what several senders have sent."""
    numbers = {number for each in ends for number in each}
    return {number: max(each.get(number, 0) for each in ends) for number in sorted(numbers)}


class Reached(NamedTuple):
    """Where a stage is: what it has committed, by topic and partition, and the id of each topic that it reads."""

    stops: Mapping[tuple[str, int], int]
    topic_ids: Mapping[str, str]

    @classmethod
    def of(cls, committed: Positions | None, starting: Positions) -> Reached:
        """A stage that has committed nothing in its generation is where that begins."""
        ranges = starting if committed is None else committed
        stops = {(each.topic, each.partition): each.start if committed is None else each.stop for each in ranges}
        return cls(stops, {each.topic: each.topic_id for each in ranges})


NOWHERE = Reached({}, {})


def has_come_to(reached: Reached, topic: str, ends: Ends) -> bool:
    """Whether a stage has committed all that lies before these ends.

    Of a topic that was made again nothing can be read that was in it before: the stage has passed over it.
    """
    id = reached.topic_ids.get(topic)
    if id is not None and ends.topic_id and id != ends.topic_id:
        return True
    return all(stop == 0 or reached.stops.get((topic, number), -1) >= stop for number, stop in ends.stops.items())
