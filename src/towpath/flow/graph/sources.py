"""What a flow reads: records of topics, as they are, joined with others, or with a state of their key.

`topic("clicks")` in a flow file is a `TopicReference`: a source where it is read, a sink where it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from towpath.errors import BadFlow
from towpath.flow.documents.reader import Duplicates
from towpath.flow.documents.schema import Extra, Schema
from towpath.flow.graph.nodes import Expectation, Node, Source
from towpath.flow.graph.stateful_nodes import (
    LATE_S,
    MOST_PER_KEY,
    ColumnJoin,
    Dedupe,
    Join,
    Late,
    On,
    RecordPart,
    StatefulStep,
    Time,
    UnmatchedRule,
)
from towpath.flow.sinks.sink import Sink
from towpath.flow.sinks.template import Template

SchemaLike = Any  # DDL text, StructType or JSON Schema


def topic(
    *names: str, key: str | None = None, partitions: int | None = None, dedupe: Dedupe | None = None
) -> TopicReference:
    """Topics to read from, or a topic to load to (`key`: a template; `partitions`: make it when it is not there).

    `dedupe`, of topics that are read: drop what a sender has sent before.
    """
    if not names or len(set(names)) != len(names):
        raise BadFlow(f"topic() takes one or several different names, not {names!r}")
    return TopicReference(names, key, partitions, dedupe)


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
        from towpath.flow.sinks.topic.sink import TopicSink

        if len(self.names) != 1:
            raise BadFlow(f"a flow loads to one topic at a time, not to {', '.join(self.names)}")
        if self.dedupe is not None:
            raise BadFlow(f"topic {self.names[0]!r}: dedupe= is for topics that are read")
        return TopicSink(self.names[0], key=self.key, partitions=self.partitions)


class Sources:
    """The part of a flow that reads. Every step has a name of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Node] = []

    def source(
        self,
        topics: TopicReference,
        *,
        schema: SchemaLike = None,
        extra: Extra = "keep",
        duplicates: Duplicates = "refuse",
        expect: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> Source:
        """Records of topics, for several steps; a step that is given a topic makes its own."""
        called = name or "+".join(topics.source_names)
        rules = tuple(Expectation(*rule) for rule in (expect or {}).items())
        if rules and schema is None:
            raise BadFlow(f"source {called!r}: expectations are about columns; give the source a schema")
        return self._read(topics, called, ReadOptions(schema, extra, duplicates), expectations=rules)

    def join(
        self,
        *,
        key: RecordPart | None = None,
        wait_s: float | None = None,
        unmatched: Literal["wait", "deliver", "error"] = "wait",
        schema: SchemaLike = None,
        extra: Extra = "keep",
        duplicates: Duplicates = "refuse",
        name: str | None = None,
        **inputs: TopicReference,
    ) -> Source:
        """The k-th record of each topic together, over the whole topics or for each key, as one document.

        `flow.join(order=topic("orders"), payment=topic("payments"), key=field("id"))` gives documents with an `order`
        and a `payment`; a schema is about these. With `wait_s` and `unmatched` what has waited so long leaves the join:
        "deliver", with null in place of what is missing, or "error".
        """
        join = Join(_one_topic_each(inputs), key, wait_s, unmatched)
        return self._joined(inputs, name, ReadOptions(schema, extra, duplicates), join)

    def join_on(
        self,
        on: On,
        *,
        within_s: float,
        time: Time | None = None,
        late_s: float = LATE_S,
        late: Late = "error",
        unmatched: UnmatchedRule | Mapping[str, UnmatchedRule] = "error",
        most_per_key: int = MOST_PER_KEY,
        duplicates: Duplicates = "refuse",
        name: str | None = None,
        **inputs: TopicReference,
    ) -> Source:
        """Every record of one topic with every one of another that has equal columns and is near in time.

        `flow.join_on(field("id"), order=topic("orders"), payment=topic("payments"), time=field("at"), within_s=3600)`
        gives documents with an `order` and a `payment`. `late_s`: how far records of an input may be behind the latest
        one; `late`: what becomes of those that are further behind; `unmatched`: of those that have found no partner.
        Only `each` steps may follow it.
        """
        join = ColumnJoin.of(
            _one_topic_each(inputs),
            on=on,
            time=time,
            within_s=within_s,
            late_s=late_s,
            late=late,
            unmatched=unmatched,
            most_per_key=most_per_key,
        )
        return self._joined(inputs, name, ReadOptions(duplicates=duplicates), join)

    def stateful(
        self,
        topics: TopicReference,
        *,
        key: RecordPart,
        schema: SchemaLike = None,
        extra: Extra = "keep",
        duplicates: Duplicates = "refuse",
        expire_s: float | None = None,
        on_wake: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Callable[[Callable[..., Any]], Source]:
        """Make a step of a Python function of one document and the state of its key, a dict that the function changes.

        It returns what an `each` function returns. If it raises, its record fails and the state is as it was. A third
        parameter is given the moment: key, time of the batch, coordinates. Only `each` steps may follow it.

        With `moment.wake_in(seconds)` or `moment.wake_at(ms)` the function asks that `on_wake(state, moment)` is called
        for its key when that time has come. What this returns goes the same way as what the function returns.
        """

        def made(function: Callable[..., Any]) -> Source:
            called = name or function.__name__
            step = StatefulStep(called, function, key, expire_s, on_wake)
            return self._read(topics, called, ReadOptions(schema, extra, duplicates), stateful=step)

        return made

    def _joined(
        self, inputs: Mapping[str, TopicReference], name: str | None, reading: ReadOptions, join: Join | ColumnJoin
    ) -> Source:
        topics = TopicReference(tuple(one for _, one in _one_topic_each(inputs)))
        dedupes = {one: each.dedupe for each in inputs.values() for one in each.names if each.dedupe is not None}
        return self._read(topics, name or "+".join(inputs), reading, join=join, dedupes=dedupes)

    def _read(self, topics: TopicReference, name: str, reading: ReadOptions, **more: Any) -> Source:
        schema = Schema.of(reading.schema, extra=reading.extra) if reading.schema is not None else None
        made = Source(
            self._free_name(name), topics.source_names, schema, reading.duplicates, dedupe=topics.dedupe, **more
        )
        self.nodes.append(made)
        return made

    def _free_name(self, name: str) -> str:
        taken = {node.name for node in self.nodes}
        if name not in taken:
            return name
        raise BadFlow(f"flow {self.name!r} has two steps named {name!r}; give one another name=")


class ReadOptions(NamedTuple):
    """How the text of records is read."""

    schema: SchemaLike = None
    extra: Extra = "keep"
    duplicates: Duplicates = "refuse"


def _one_topic_each(inputs: Mapping[str, TopicReference]) -> tuple[tuple[str, str], ...]:
    for name, each in inputs.items():
        if not isinstance(each, TopicReference):
            raise BadFlow(f"a join has topics as inputs, such as order=topic('orders'), and knows no {name}={each!r}")
    found = tuple((called, one) for called, each in inputs.items() for one in each.source_names)
    if len(found) != len(inputs):
        raise BadFlow("an input of a join is one topic")
    return found
