"""The flow: what a user writes. A flow file is plain Python and loads nothing of Spark.

flow = Flow("page-views")

@flow.step(topic("clicks"), schema="name string, visitor string, at bigint, url string")
@expect("positive time", "at > 0")
def views(clicks):
    return clicks.where("name = 'page.viewed'")

@flow.each(views, timeout_s=1)
def label(view):
    return {**view, "section": view["url"].split("/")[1]}

flow.load(label, index("views", id="{visitor}-{at}"))

`find_flow` finds a flow by what a user types, seen from the working directory: `module:flow`, `path/to/file.py:flow`,
or the module or file alone when it has one flow.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

from towpath.core.user_code import import_user_module
from towpath.errors import BadFlow
from towpath.flow.delivery.ids import Strategy
from towpath.flow.documents.reader import Duplicates
from towpath.flow.documents.schema import Extra
from towpath.flow.graph.nodes import (
    TYPE_FIELD,
    AnyOf,
    Branch,
    ClosingStep,
    Each,
    Expectation,
    Fork,
    Forked,
    InputFilter,
    Node,
    Output,
    Source,
    Step,
    names,
)
from towpath.flow.graph.sources import SchemaLike, Sources, TopicReference
from towpath.flow.graph.stages import Stage, checked_stages
from towpath.flow.sinks.sink import Sink
from towpath.policy import Rule, Said

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
EXPECTATIONS = "__towpath_expectations__"
PYTHONPATH = "PYTHONPATH"

Function = TypeVar("Function", bound=Callable[..., Any])
Input = Node | TopicReference


class Flow(Sources):
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
        order: Literal["key"] | None = None,
    ) -> None:
        if not NAME.fullmatch(name):
            raise BadFlow(f"a flow is named with letters, digits, - and _, 80 at most, not {name!r}")
        if delivery not in tuple(Strategy):
            raise BadFlow(f"flow {name!r}: delivery={delivery!r} is not one of {', '.join(Strategy)}")
        if order not in (None, "key"):
            raise BadFlow(f"flow {name!r}: order={order!r} is not 'key'")
        if order is not None and delivery != Strategy.EXACTLY_ONCE:
            raise BadFlow(f"flow {name!r}: order='key' needs delivery='exactly-once'")
        super().__init__(name)
        self.delivery = Strategy(delivery)
        self.version = version
        self.starting = starting
        self.max_record_bytes = max_record_bytes
        self.error_topic = error_topic or f"{name}.errors"
        self.type_field = type_field
        self.order = order  # "key": behind a record that has failed, none of its key is tried
        self.outputs: list[Output] = []
        self.rules: list[Rule] = []
        self.closings: list[ClosingStep] = []
        self._names_before: dict[str, str] = {}

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
            takes = InputFilter.of(called, topics, types, self.type_field)
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
            takes = InputFilter.of(called, topics, types, self.type_field)
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
            takes = InputFilter.of(called, topics, types, self.type_field)
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

    def at_end(
        self,
        stream: str,
        *,
        result: str,
        collected: Iterable[str] | str,
        order_by: Iterable[str] | str = (),
        columns: Iterable[str] | None = None,
        name: str | None = None,
    ) -> Callable[[Callable[..., Any]], ClosingStep]:
        """Make a step that runs once at the end of each upload of a stream, over what was collected of it.

        The function is given a DataFrame for each name in `collected`, with the columns of `collect(…, schema=…)`, and
        returns one, whose rows are what the client gets for the query `result`, in the order of `order_by`.
        """

        def made(function: Callable[..., Any]) -> ClosingStep:
            called = name or function.__name__
            above = names(f"step {called!r}: collected=", collected)
            if not above:
                raise BadFlow(f'step {called!r}: collected= names what it is given: collected=("orders",)')
            if any(step.stream == stream and result == step.result for step in self.closings):
                raise BadFlow(f"flow {self.name!r} has two steps that give {result!r} at the end of {stream!r}")
            order = names(f"step {called!r}: order_by=", order_by)
            shown = None if columns is None else names(f"step {called!r}: columns=", columns)
            step = ClosingStep(stream, called, result, above, function, order, shown)
            self.closings.append(step)
            return step

        return made

    def on_error(
        self,
        policy: Said,
        *,
        step: str | Node | None = None,
        code: int | None = None,
        exception: str | type[BaseException] | None = None,
        where: str | None = None,
    ) -> None:
        """What the desk does about an error of that step, code and exception, of which the expression is true.

        The first rule that fits decides; an error that none fits is isolated. Operators may put rules before these.
        """
        named = step.name if isinstance(step, Node) else step
        self.rules.append(Rule.of(policy, step=named, code=code, exception=exception, where=where))

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
        if self.order is not None and any(stage.is_stateful for stage in stages):
            raise BadFlow(f"flow {self.name!r}: order='key' is not for stages that keep state, such as joins")
        return stages

    def _inputs(
        self, inputs: tuple[Input, ...], schema: SchemaLike, extra: Extra, duplicates: Duplicates
    ) -> tuple[Node, ...]:
        if len(inputs) != 1:
            raise BadFlow("a step has one input: another step, or topics as one source: topic('a', 'b')")
        [input] = inputs
        if isinstance(input, TopicReference):
            return (self.source(input, schema=schema, extra=extra, duplicates=duplicates),)
        if schema is not None:
            raise BadFlow("schema= is for topics; the columns of a step are what its function gives")
        return (self._own(input),)

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


def find_flow(target: str) -> FlowFile:
    """Import what the target names and pick the flow; `BadFlow` says what is wrong with it."""
    place, _, name = target.rpartition(":") if ":" in target else (target, "", "")
    if not place or (":" in target and not name):
        raise BadFlow(f"{target!r} is not MODULE:FLOW, FILE.py:FLOW, or a module or file with one flow")
    found = import_user_module(place, Path(), BadFlow)
    return FlowFile(_picked(found.module, place, name), found.module, found.paths)


@dataclass(frozen=True, slots=True)
class FlowFile:
    """A flow and the module that it was found in. `paths` are the directories that its imports are looked for in."""

    flow: Flow
    module: ModuleType
    paths: tuple[str, ...]

    def take_along(self) -> str:
        """Let Spark's workers have the user's code; returns the path for workers elsewhere. Before Spark starts.

        The module itself goes along with its functions, since its file may have no name that can be imported. What it
        imports is found by path.
        """
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(self.module)  # type: ignore[no-untyped-call]
        before = os.environ.get(PYTHONPATH, "").split(os.pathsep)
        os.environ[PYTHONPATH] = os.pathsep.join(dict.fromkeys(filter(None, (*self.paths, *before))))
        return os.environ[PYTHONPATH]


def _picked(module: ModuleType, place: str, name: str) -> Flow:
    flows = {each: found for each, found in vars(module).items() if isinstance(found, Flow)}
    names = {id(flow): each for each, flow in reversed(flows.items())}  # one with two names is one
    known = ", ".join(f"{place}:{each}" for each in sorted(names.values()))
    if name:
        found = vars(module).get(name)
        if isinstance(found, Flow):
            return found
        what = f"has no {name!r}" if found is None else f"has a {type(found).__name__} of the name {name!r}, not a Flow"
        raise BadFlow(f"{place} {what}; {f'its flows: {known}' if known else 'it has no flow at all'}")
    if not flows:
        raise BadFlow(f'{place} has no flow; make one: flow = towpath.Flow("name")')
    if len(names) > 1:
        raise BadFlow(f"{place} has several flows; say which: {known}")
    return next(iter(flows.values()))


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
