"""`topic("clicks")` in a flow file: a source where it is read, a sink where it is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.errors import BadFlow
from towpath.flow.sinks.sink import Sink
from towpath.flow.stateful.dedupe import Dedupe
from towpath.flow.template import Template


@dataclass(frozen=True, slots=True)
class TopicReference:
    """One or several topics by name. As a sink it is one, whose name may hold fields of the document."""

    names: tuple[str, ...]
    key: str | None = None
    partitions: int | None = None
    dedupe: Dedupe | None = None

    @property
    def source_names(self) -> tuple[str, ...]:
        for name in self.names:
            if not Template(name).is_fixed:
                raise BadFlow(f"topic {name!r}: a topic that is read has a fixed name")
        return self.names

    def sink(self) -> Sink:
        from towpath.flow.sinks.topic import TopicSink

        if len(self.names) != 1:
            raise BadFlow(f"a flow loads to one topic at a time, not to {', '.join(self.names)}")
        if self.dedupe is not None:
            raise BadFlow(f"topic {self.names[0]!r}: dedupe= is for topics that are read")
        return TopicSink(self.names[0], key=self.key, partitions=self.partitions)


def topic(
    *names: str, key: str | None = None, partitions: int | None = None, dedupe: Dedupe | None = None
) -> TopicReference:
    """Topics to read from, or a topic to load to (`key`: a template; `partitions`: make it when it is not there).

    `dedupe`, of topics that are read: drop what a sender has sent before.
    """
    if not names or len(set(names)) != len(names):
        raise BadFlow(f"topic() takes one or several different names, not {names!r}")
    return TopicReference(names, key, partitions, dedupe)
