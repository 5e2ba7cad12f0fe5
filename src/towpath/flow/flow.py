"""The flow: what a user writes. A flow file is plain Python; nothing of Spark is loaded by it.

flow = Flow("page-views")

@flow.step(topic("clicks"), schema="name string, visitor string, at bigint, url string")
@expect("positive time", "at > 0")
def views(clicks):
    return clicks.where("name = 'page.viewed'")

@flow.each(views, timeout_s=1)
def label(view):
    return {**view, "section": view["url"].split("/")[1]}

flow.load(label, index("views", id="{visitor}-{at}"))
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

from towpath.errors import BadFlow
from towpath.flow.graph import Stage, checked_stages
from towpath.flow.nodes import Each, Expectation, Node, Output, Source, Step
from towpath.flow.sinks.sink import Sink
from towpath.flow.strategy import Strategy
from towpath.flow.takes import TYPE_FIELD, Takes
from towpath.flow.text.reading import Duplicates
from towpath.flow.text.schema import Extra, Schema
from towpath.flow.topic_reference import TopicReference

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
EXPECTATIONS = "__towpath_expectations__"

Function = TypeVar("Function", bound=Callable[..., Any])
Input = Node | TopicReference
SchemaLike = Any  # DDL text, StructType or JSON Schema


class Flow:
    """Topics in, steps, sinks out, under one name. The name is for ever: ledger, checkpoints and topics go by it."""

    def __init__(
        self,
        name: str,
        *,
        delivery: Literal["exactly-once", "at-least-once", "at-most-once"] | str = Strategy.AT_LEAST_ONCE,
        version: str = "",
        starting: Literal["earliest", "latest"] | None = None,
        max_record_bytes: int | None = None,
        error_topic: str | None = None,
        type_field: str = TYPE_FIELD,
    ) -> None:
        if not NAME.fullmatch(name):
            raise BadFlow(f"a flow is named with letters, digits, - and _, 80 at most, not {name!r}")
        if delivery not in tuple(Strategy):
            raise BadFlow(f"flow {name!r}: delivery={delivery!r} is not one of {', '.join(Strategy)}")
        self.name = name
        self.delivery = Strategy(delivery)
        self.version = version
        self.starting = starting
        self.max_record_bytes = max_record_bytes
        self.error_topic = error_topic or f"{name}.errors"
        self.type_field = type_field
        self.nodes: list[Node] = []
        self.outputs: list[Output] = []
        self._names_before: dict[str, str] = {}

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
        made = Source(
            self._free_name(name or "+".join(topics.source_names)),
            topics.source_names,
            Schema.of(schema, extra=extra) if schema is not None else None,
            duplicates,
            tuple(Expectation(*rule) for rule in (expect or {}).items()),
            topics.dedupe,
        )
        if made.expectations and made.schema is None:
            raise BadFlow(f"source {made.name!r}: expectations are about columns; give the source a schema")
        self.nodes.append(made)
        return made

    def step(
        self,
        *inputs: Input,
        schema: SchemaLike = None,
        extra: Extra = "keep",
        duplicates: Duplicates = "refuse",
        topics: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Callable[[Callable[..., Any]], Step]:
        """Make a step of a function from a DataFrame to a DataFrame.

        It takes everything, or only records of some topics, or of some types: the text in the column `type`, or in the
        one that the flow names as its `type_field`. What it does not take is filtered, and counted to it.
        `deterministic` says whether it gives the same for the same records each time; not said, Spark's plan is asked.
        """

        def made(function: Callable[..., Any]) -> Step:
            above = self._inputs(inputs, schema, extra, duplicates)
            called = self._free_name(name or function.__name__)
            takes = Takes.of(called, topics, types, self.type_field)
            step = Step(called, above, function, _expectations(function), takes, deterministic)
            self.nodes.append(step)
            return step

        return made

    def each(
        self,
        *inputs: Input,
        schema: SchemaLike = None,
        extra: Extra = "keep",
        duplicates: Duplicates = "refuse",
        topics: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        timeout_s: float | None = None,
        effects: bool = False,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Callable[[Callable[..., Any]], Each]:
        """Make a step of a Python function of one document: it returns none (filtered), one, or a list of several.

        A function with a second parameter is also given the record: topic, partition, offset, key, headers, time, id.
        `topics` and `types` are as in `step`; the type is the text in that field of the document. `deterministic=True`
        says that it gives the same for the same document each time: then nothing has to be kept of what it gave.
        """

        def made(function: Callable[..., Any]) -> Each:
            called = name or function.__name__
            if _expectations(function):
                raise BadFlow(f"each {called!r}: expectations are about columns; put them on a step")
            if timeout_s is not None and not timeout_s > 0:
                raise BadFlow(f"each {called!r}: timeout_s must be above 0, not {timeout_s!r}")
            above = self._inputs(inputs, schema, extra, duplicates)
            wants = len(inspect.signature(function).parameters) > 1
            takes = Takes.of(called, topics, types, self.type_field)
            each = Each(self._free_name(called), above, function, timeout_s, wants, effects, takes, deterministic)
            self.nodes.append(each)
            return each

        return made

    def load(
        self,
        input: Input,
        sink: Sink | TopicReference,
        *,
        name: str | None = None,
        name_before: str | None = None,
    ) -> Output:
        """Write what a step gives to a sink.

        The output is called `name`, or after its sink. `name_before` is the name under which it began, if that was
        another one: delivery ids and marks go by it for ever, so that a record that comes again is known again.
        """
        target = sink.sink() if isinstance(sink, TopicReference) else sink
        [above] = self._inputs((input,), None, "keep", "refuse")
        called = name or str(target)
        output = Output(name_before or called, above, target, called)
        for other in self.outputs:
            if {other.name, other.called} & {output.name, output.called}:
                raise BadFlow(f"flow {self.name!r} has two outputs named {output.called!r}; give one another name=")
        self.outputs.append(output)
        return output

    def renamed(self, old: str, new: str) -> None:
        """The stage that is called `new` after its topics is the one that was called `old` in an earlier run.

        It goes on where it was: positions, counters, delivery ids and all else go by its first name for ever.
        """
        if new in self._names_before:
            raise BadFlow(f"flow {self.name!r}: {new!r} was {self._names_before[new]!r} and cannot have been {old!r}")
        self._names_before[new] = old

    def stages(self) -> list[Stage]:
        """The parts that run by themselves, each with its own position; raises `BadFlow` when the graph is wrong."""
        stages = checked_stages(self.name, self.nodes, self.outputs, self.delivery, self._names_before)
        if any(self.error_topic in stage.topics for stage in stages):
            raise BadFlow(f"flow {self.name!r} reads its own error topic {self.error_topic!r}")
        return stages

    def _inputs(
        self, inputs: tuple[Input, ...], schema: SchemaLike, extra: Extra, duplicates: Duplicates
    ) -> tuple[Node, ...]:
        if len(inputs) != 1:
            raise BadFlow("a step has one input: another step, or topics as one source: topic('a', 'b')")
        has_topic = any(isinstance(input, TopicReference) for input in inputs)
        if schema is not None and not has_topic:
            raise BadFlow("schema= is for topics; the columns of a step are what its function gives")
        return tuple(
            self.source(input, schema=schema, extra=extra, duplicates=duplicates)
            if isinstance(input, TopicReference)
            else self._own(input)
            for input in inputs
        )

    def _own(self, node: Node) -> Node:
        if not any(node is own for own in self.nodes):
            raise BadFlow(f"{node!r} is no step of flow {self.name!r}")
        return node

    def _free_name(self, name: str) -> str:
        taken = {node.name for node in self.nodes}
        if name not in taken:
            return name
        raise BadFlow(f"flow {self.name!r} has two steps named {name!r}; give one another name=")

    def __repr__(self) -> str:
        return f"Flow({self.name!r})"


def expect(name: str, expression: str) -> Callable[[Function], Function]:
    """A rule that every row of a step must meet; one that does not goes to the errors with code 8 and this name."""

    if not name.strip():
        raise BadFlow(f"the expectation {expression!r} needs a name")

    def marked(function: Function) -> Function:
        rules = (Expectation(name, expression), *getattr(function, EXPECTATIONS, ()))
        setattr(function, EXPECTATIONS, rules)
        return function

    return marked


def _expectations(function: Callable[..., Any]) -> tuple[Expectation, ...]:
    rules: tuple[Expectation, ...] = getattr(function, EXPECTATIONS, ())
    return rules
