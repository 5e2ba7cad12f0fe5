"""Topics as a sink: what a flow has made goes on as records."""

from __future__ import annotations

from towpath.errors import BadSettings, UnknownTopic
from towpath.flow.sinks.sink import Writer, WriterContext
from towpath.flow.sinks.template import Template
from towpath.flow.sinks.topic.logs import log_errors, opened
from towpath.flow.sinks.topic.writer import MarkedTopicWriter, TopicWriter, create
from towpath.settings import Settings


class TopicSink:
    """Appends to the topic of that name, or to one for each value of its fields.

    The key is that of the input, or a template's. A missing topic is an error, unless `partitions` says how it is made.

    Exactly once where the flow is. Otherwise a batch that is tried again appends its records again; each says in its
    headers which delivery it is, so that a reader can leave out what came twice.
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
