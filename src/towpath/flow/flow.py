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
from towpath.flow.nodes import AnyOf, Branch, Each, Expectation, Fork, Forked, Node, Output, Source, Step
from towpath.flow.sinks.sink import Sink
from towpath.flow.stateful.column_join import LATE_S, MOST_PER_KEY, ColumnJoin, On, Time
from towpath.flow.stateful.dedupe import Dedupe, Late
from towpath.flow.stateful.join import Join
from towpath.flow.stateful.record_part import RecordPart
from towpath.flow.stateful.stateful_step import StatefulStep
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
        delivery: Literal["exactly-once", "at-least-once", "at-most-once"] | str = Strategy.EXACTLY_ONCE,
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
        stateful: StatefulStep | None = None,
        join: Join | ColumnJoin | None = None,
        dedupes: Mapping[str, Dedupe] | None = None,
    ) -> Source:
        """Records of topics, for several steps; a step that is given a topic makes its own."""
        made = Source(
            self._free_name(name or "+".join(topics.source_names)),
            topics.source_names,
            Schema.of(schema, extra=extra) if schema is not None else None,
            duplicates,
            tuple(Expectation(*rule) for rule in (expect or {}).items()),
            topics.dedupe,
            stateful,
            join,
            dedupes or {},
        )
        if made.expectations and made.schema is None:
            raise BadFlow(f"source {made.name!r}: expectations are about columns; give the source a schema")
        self.nodes.append(made)
        return made

    def join(
        self,
        *,
        key: RecordPart | None = None,
        wait_s: float | None = None,
        on: On | None = None,
        time: Time | None = None,
        within_s: float | None = None,
        late_s: float = LATE_S,
        late: Late = "error",
        unmatched: Any = None,  # what each kind of join takes
        most_per_key: int = MOST_PER_KEY,
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

        With `on=field("id"), time=field("at"), within_s=3600` it is every order with every payment that has the same
        `id` and is at most so far apart in time. `late_s`: how far records of an input may be behind the latest one;
        `late`: what becomes of those that are further behind; `unmatched`: of those that have found no partner. Only
        `each` steps may follow it.
        """
        found = [(called, one) for called, each in inputs.items() for one in each.source_names]
        if len(found) != len(inputs):
            raise BadFlow("an input of a join is one topic")
        called = name or "+".join(inputs)
        join = Join(tuple(found), key, wait_s, unmatched or "wait") if on is None else None
        if join is None and (key is not None or schema is not None):
            raise BadFlow("a join on columns has no key= and no schema=: say on=, and look at the document in a step")
        if join is not None and (time is not None or within_s is not None):
            raise BadFlow("time= and within_s= are for a join on columns: say on=field(…)")
        if join is None and wait_s is not None:
            raise BadFlow("wait_s= is for a join by position: on columns it is within_s= and late_s=")
        return self.source(
            TopicReference(tuple(one for _, one in found)),
            schema=schema,
            extra=extra,
            duplicates=duplicates,
            name=called,
            join=join
            or ColumnJoin.of(
                found,
                on=on,
                time=time,
                within_s=within_s,
                late_s=late_s,
                late=late,
                unmatched=unmatched,
                most_per_key=most_per_key,
            ),
            dedupes={one: each.dedupe for each in inputs.values() for one in each.names if each.dedupe is not None},
        )

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
            return self.source(topics, schema=schema, extra=extra, duplicates=duplicates, name=called, stateful=step)

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

        _check_columns(inputs)

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
        outputs: Iterable[str] = (),
        name: str | None = None,
    ) -> Callable[[Callable[..., Any]], Any]:
        """Make a step of a Python function of one document: it returns none (filtered), one, or a list of several.

        With `outputs` it returns a dict, by name of output, of what it would return otherwise; what is made is no input
        for others, but each of its outputs is: `sizes["big"]`.

        A function with a second parameter is also given the record: topic, partition, offset, key, headers, time, id.
        `topics` and `types` are as in `step`; the type is the text in that field of the document. `deterministic=True`
        says that it gives the same for the same document each time: then nothing has to be kept of what it gave.
        """

        def made(function: Callable[..., Any]) -> Each | Forked:
            called = name or function.__name__
            if _expectations(function):
                raise BadFlow(f"each {called!r}: expectations are about columns; put them on a step")
            if timeout_s is not None and not timeout_s > 0:
                raise BadFlow(f"each {called!r}: timeout_s must be above 0, not {timeout_s!r}")
            above = self._inputs(inputs, schema, extra, duplicates)
            wants = len(inspect.signature(function).parameters) > 1
            takes = Takes.of(called, topics, types, self.type_field)
            names = _output_names(called, outputs)
            free = self._free_name(called)
            each = Each(free, above, function, timeout_s, wants, effects, takes, deterministic, names)
            self.nodes.append(each)
            return self._forked(each) if names else each

        return made

    def fork(
        self,
        input: Input,
        *,
        outputs: Iterable[str],
        topics: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Callable[[Callable[..., Any]], Forked]:
        """Make a step of a function from a DataFrame to a dict of DataFrames, by name of output.

        Each output is an input for other steps and loads: `sizes["big"]`. A name that is not in the dict gets nothing.
        """
        _check_columns([input])

        def made(function: Callable[..., Any]) -> Forked:
            called = self._free_name(name or function.__name__)
            if _expectations(function):
                raise BadFlow(f"fork {called!r}: put expectations on the step before it, or on those behind it")
            above = self._inputs((input,), None, "keep", "refuse")
            takes = Takes.of(called, topics, types, self.type_field)
            names = _output_names(called, outputs)
            if not names:
                raise BadFlow(f'fork {called!r}: outputs= names what it gives: outputs=("big", "small")')
            fork = Fork(called, above, function, names, takes, deterministic)
            self.nodes.append(fork)
            return self._forked(fork)

        return made

    def any_of(self, *inputs: Input, name: str | None = None) -> AnyOf:
        """The rows of several topics or steps, whichever has some, for a step, each step or load.

        For a DataFrame step their columns are united by name: one that an input does not have is null in its rows.
        """
        above = tuple(self._inputs((each,), None, "keep", "refuse")[0] for each in inputs)
        if len(set(map(id, above))) < max(2, len(above)):
            raise BadFlow("any_of is for two inputs or more, each of them once")
        made = AnyOf(self._free_name(name or " or ".join(each.name for each in above)), above)
        self.nodes.append(made)
        return made

    def _forked(self, fork: Fork | Each) -> Forked:
        branches = [Branch(self._free_name(f"{fork.name}.{output}"), fork, output) for output in fork.outputs]
        self.nodes += branches
        return Forked(fork, branches)

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
        if isinstance(node, Forked):
            raise BadFlow(
                f"{node.fork.name!r} has several outputs; say which: {node.fork.name}[{node.fork.outputs[0]!r}]"
            )
        if isinstance(node, Each | Fork) and node.outputs:
            raise BadFlow(f"{node.name!r} has several outputs; say which: {', '.join(node.outputs)}")
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


def _output_names(step: str, outputs: Iterable[str]) -> tuple[str, ...]:
    names = () if isinstance(outputs, str) else tuple(outputs)
    if isinstance(outputs, str) or len(set(names)) < len(names) or not all(NAME.fullmatch(name) for name in names):
        raise BadFlow(f'step {step!r}: outputs= is several names, each once: outputs=("big", "small"), not {outputs!r}')
    return names


def _check_columns(inputs: Iterable[Input]) -> None:
    """What functions on DataFrames stand on must have columns."""
    for above in inputs:
        if isinstance(above, AnyOf):
            _check_columns(above.inputs)
        elif isinstance(above, Source) and not above.has_columns:
            raise BadFlow(
                f"a DataFrame step needs columns, and what {above.name!r} gives has none, because it keeps state; "
                "use an each step"
            )
