"""Reading back what topics hold, for the audit: the delivery ids in the headers of records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from towpath.flow.sinks.sink import FoundDelivery, SinkReach, SinkReader, foreign
from towpath.flow.sinks.template import is_of
from towpath.flow.sinks.topic.sink import TopicSink
from towpath.flow.sinks.topic.writer import DELIVERY
from towpath.log.log import Log


@dataclass
class TopicReader(SinkReader):
    """The records of topics. Unless the flow is exactly-once a delivery may be there several times."""

    sink: TopicSink
    log: Log
    is_idempotent: bool = False
    why_part = "the topic keeps its records only for a time"

    def delivered(self) -> Iterator[FoundDelivery]:
        for topic in self._topics():
            for number, start in sorted(self.log.starts(topic).items()):
                self.reach = SinkReach.PART if start > 0 else self.reach
                for record in self.log.read(topic, number, start):
                    name = f"{topic}/{number}/{record.offset}"
                    said = dict(record.headers).get(DELIVERY)
                    yield foreign(name) if said is None else FoundDelivery(bytes.fromhex(said.decode()), name)

    def _topics(self) -> list[str]:
        if self.sink.target.is_fixed:
            return [self.sink.target.filler()({})]
        return [topic.name for topic in self.log.topics() if is_of(self.sink.target, topic.name)]
