"""Looks for one record in the sinks of a flow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from towpath.flow.audit.readers import Delivered, Reach, Unreadable
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
    id: str | None  # of the document, where it is made from the place of the record
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

    def find(self, stage: Stage, topic: str, topic_id: str, partition: int, offset: int) -> Look:
        """Read each output of the stage. An index is asked for ids; of other sinks nothing says where in it to look."""
        look = Look()
        if self.flow is None or self.log is None:
            return look
        outputs = [each for own in self.flow.stages() if own.name == stage.name for each in own.outputs]
        look.is_exact = bool(outputs)
        for output in outputs:
            ids = DeliveryIds(stage.flow, stage.name, output.name)
            place = f"{topic}:{stage.topics[topic].index(topic_id)}:{partition}:{offset}"
            wanted = {
                ids.of(topic_id, partition, offset, ordinal): f"{place}:{ordinal}" if ordinal else place
                for ordinal in range(MOST_ORDINALS)
            }
            for each in _deliveries(self.log, output.sink, stage, ids, look, list(wanted.values())):
                if each.delivery_id in wanted:
                    id = wanted[each.delivery_id] if output.sink.id is None else None
                    look.found.append(Found(output.name, id, each.name))
        return look


def _deliveries(
    log: Log, sink: Sink, stage: Stage, ids: DeliveryIds, look: Look, names: Sequence[str]
) -> Iterator[Delivered]:
    from towpath.flow.audit.sink_readers import CoordinatesReader, open_reader  # sinks need their own packages

    reader = open_reader(sink, log, stage.topics, ids)
    if isinstance(reader, Unreadable):
        look.is_exact = False
        return
    try:
        if isinstance(reader, IndexReader):  # its ids are the flow's own: nobody knows which one to look for
            look.is_exact = False
            return
        yield from reader.named(names) if isinstance(reader, CoordinatesReader) else reader.delivered()
        look.is_exact = look.is_exact and reader.reach is Reach.ALL
    finally:
        reader.close()
