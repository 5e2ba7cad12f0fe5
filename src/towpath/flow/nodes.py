"""What a flow is made of: sources, steps and outputs. Each is a value that knows its inputs; `Flow` makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from towpath.flow.sinks.sink import Sink
from towpath.flow.stateful.dedupe import Dedupe
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

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def is_stateful(self) -> bool:
        """Whether what becomes of a record depends on records of earlier batches."""
        return self.dedupe is not None


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

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


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


Node: TypeAlias = Source | Step | Each


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
