"""What a flow is made of: sources, steps and outputs. Each is a value that knows its inputs; `Flow` makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from towpath.errors import BadFlow
from towpath.flow.sinks.sink import Sink
from towpath.flow.stateful.column_join import ColumnJoin
from towpath.flow.stateful.dedupe import Dedupe
from towpath.flow.stateful.join import Join
from towpath.flow.stateful.stateful_step import StatefulStep
from towpath.flow.takes import EVERYTHING, Takes
from towpath.flow.text.reading import Duplicates
from towpath.flow.text.schema import Schema


class Expectation(NamedTuple):
    """A rule with a name: a SQL expression over a row that must be true; null counts as not met."""

    name: str
    expression: str


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """Records of topics, read as JSON objects and held to a schema if there is one."""

    name: str
    topics: tuple[str, ...]
    schema: Schema | None = None
    duplicates: Duplicates = "refuse"
    expectations: tuple[Expectation, ...] = ()
    dedupe: Dedupe | None = None  # by which records are dropped that were sent before
    stateful: StatefulStep | None = None  # the function that is called with each record and a state
    join: Join | ColumnJoin | None = None  # by which records of its topics become one
    dedupes: Mapping[str, Dedupe] = field(default_factory=dict)  # by topic, where they are not the same for all

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def has_columns(self) -> bool:
        """Whether what it gives can be columns: it is the records themselves, or documents in place of them."""
        return self.stateful is None and not isinstance(self.join, ColumnJoin)

    def dedupe_of(self, topic: str) -> Dedupe | None:
        return self.dedupes.get(topic, self.dedupe)

    @property
    def is_stateful(self) -> bool:
        """Whether what becomes of a record depends on records of earlier batches."""
        return any(rule is not None for rule in (self.dedupe, self.stateful, self.join))


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """A function from a DataFrame to a DataFrame: runs inside the JVM. Called, it is that function."""

    name: str
    inputs: tuple[Node, ...]
    function: Callable[..., Any] = field(repr=False)
    expectations: tuple[Expectation, ...] = ()
    takes: Takes = EVERYTHING
    deterministic: bool | None = None  # None: not said, Spark is asked

    def __call__(self, *frames: Any) -> Any:
        return self.function(*frames)


@dataclass(frozen=True, eq=False, slots=True)
class Each:
    """A Python function from one document to none, one or several. Called, it is that function."""

    name: str
    inputs: tuple[Node, ...]
    function: Callable[..., Any] = field(repr=False)
    timeout_s: float | None = None
    wants_record: bool = False
    effects: bool = False
    takes: Takes = EVERYTHING
    deterministic: bool | None = None  # None: not said, so nobody relies on it
    outputs: tuple[str, ...] = ()  # names, where it gives a dict of documents by name

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


@dataclass(frozen=True, eq=False, slots=True)
class Fork:
    """A function from a DataFrame to several, by name. Called, it is that function."""

    name: str
    inputs: tuple[Node, ...]
    function: Callable[..., Any] = field(repr=False)
    outputs: tuple[str, ...]
    takes: Takes = EVERYTHING
    deterministic: bool | None = None  # None: not said, Spark is asked

    def __call__(self, *frames: Any) -> Any:
        return self.function(*frames)


@dataclass(frozen=True, eq=False, slots=True)
class Branch:
    """One of the outputs of a fork, or of an each step that has several."""

    name: str
    fork: Fork | Each
    output: str

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.fork,)


@dataclass(frozen=True, eq=False, slots=True)
class AnyOf:
    """The rows of several nodes, whichever has some."""

    name: str
    inputs: tuple[Node, ...]


class Forked:
    """What a forking step is to whoever goes on from it: its branches by name, `sizes["big"]`, or in their order."""

    def __init__(self, fork: Fork | Each, branches: Sequence[Branch]) -> None:
        self.fork = fork
        self._branches = {branch.output: branch for branch in branches}

    def __getitem__(self, output: str) -> Branch:
        if output in self._branches:
            return self._branches[output]
        raise BadFlow(f"{self.fork.name!r} has the outputs {', '.join(self._branches)}, not {output!r}")

    def __iter__(self) -> Iterator[Branch]:
        return iter(self._branches.values())

    def __call__(self, *arguments: Any) -> Any:
        return self.fork(*arguments)


@dataclass(frozen=True, eq=False, slots=True)
class Output:
    """What a step gives, written to a sink. Ids, marks and counts go by `name`, the one under which it began."""

    name: str
    input: Node
    sink: Sink
    called: str = ""  # in the flow file, where that is another name by now

    def __post_init__(self) -> None:
        if not self.called:
            object.__setattr__(self, "called", self.name)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


Node: TypeAlias = Source | Step | Each | Fork | Branch | AnyOf


def sources_of(nodes: Sequence[Node | Output]) -> list[Source]:
    """The sources that these are made from, each once, in the order in which they are met."""
    found: dict[int, Source] = {}

    def visit(node: Node | Output) -> None:
        if isinstance(node, Source):
            found.setdefault(id(node), node)
        for above in node.inputs:
            visit(above)

    for node in nodes:
        visit(node)
    return list(found.values())
