"""Looks for one record in the sinks of a flow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from towpath.flow.audit.readers import Reach, Unreadable
from towpath.flow.delivery import DeliveryIds
from towpath.flow.flow import Flow
from towpath.flow.sinks.index_reader import IndexReader
from towpath.flow.sinks.sink import Sink
from towpath.flow.stage_store import Stage
from towpath.log.log import Log

MOST_ORDINALS = 32


class Found(NamedTuple):
    """A delivery of the record."""

    output: str
    name: str  # how a person finds it


@dataclass(slots=True)
class Look:
    """What a look into all outputs gave. Exact: each could be read, so what was not found is not there."""

    found: list[Found] = field(default_factory=list)
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class SinkLook:
    """The sinks of a flow, if its file is at hand."""

    flow: Flow | None = None
    log: Log | None = None

    def find(self, stage: Stage, topic_id: str, partition: int, offset: int) -> Look:
        """Read each output of the stage until its deliveries are found: that may mean the whole of it."""
        look = Look()
        if self.flow is None or self.log is None:
            return look
        outputs = [each for own in self.flow.stages() if own.name == stage.name for each in own.outputs]
        look.is_exact = bool(outputs)
        for output in outputs:
            ids = DeliveryIds(stage.flow, stage.name, output.name)
            wanted = {ids.of(topic_id, partition, offset, ordinal) for ordinal in range(MOST_ORDINALS)}
            names = list(_names(self.log, output.sink, stage, ids, wanted, look))
            look.found += [Found(output.name, name) for name in names]
        return look


def _names(log: Log, sink: Sink, stage: Stage, ids: DeliveryIds, wanted: set[bytes], look: Look) -> Iterator[str]:
    from towpath.flow.audit.sink_readers import open_reader  # sinks need their own packages

    reader = open_reader(sink, log, stage.topics, ids)
    if isinstance(reader, Unreadable):
        look.is_exact = False
        return
    try:
        if isinstance(reader, IndexReader):  # its ids are the flow's own: nobody knows which one to look for
            look.is_exact = False
            return
        yield from (each.name for each in reader.delivered() if each.delivery_id in wanted)
        look.is_exact = look.is_exact and reader.reach is Reach.ALL
    finally:
        reader.close()
