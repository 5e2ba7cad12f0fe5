"""The nodes of a flow: sources, steps and outputs. Each is a value that knows its inputs; `Flow` makes them.

An `InputFilter` says which topics and types a step accepts. A `ClosingStep` runs at the end of an upload; the flow only
keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from towpath.errors import BadFlow
from towpath.flow.documents.reader import Duplicates
from towpath.flow.documents.schema import Schema
from towpath.flow.graph.stateful_nodes import ColumnJoin, Dedupe, Join, StatefulStep
from towpath.flow.sinks.sink import Sink

TYPE_FIELD = "type"


@dataclass(frozen=True, slots=True)
class InputFilter:
    """Which topics and types a step accepts; None: all of them. What it does not accept is filtered by it.

    The type is the text in one field of the document that comes to the step. Without that field, or with anything but
    text in it, a document is of no type.
    """

    topics: frozenset[str] | None = None
    types: frozenset[str] | None = None
    type_field: str = TYPE_FIELD

    @classmethod
    def of(cls, step: str, topics: Iterable[str] | None, types: Iterable[str] | None, type_field: str) -> InputFilter:
        return cls(_named(step, "topics", topics), _named(step, "types", types), type_field)

    @property
    def is_everything(self) -> bool:
        return self.topics is None and self.types is None

    def has(self, topic: str, document: Mapping[str, Any]) -> bool:
        """Whether the step accepts this document of a record of this topic."""
        if self.topics is not None and topic not in self.topics:
            return False
        if self.types is None:
            return True
        type = document.get(self.type_field)
        return isinstance(type, str) and type in self.types

    def __str__(self) -> str:
        return ", ".join(sorted(self.topics or ()) + sorted(self.types or ()))


EVERYTHING = InputFilter()


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


class _Callable:
    """A node that is made of a user's function. Called, it is that function."""

    __slots__ = ()
    function: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


@dataclass(frozen=True, eq=False, slots=True)
class Step(_Callable):
    """A function from a DataFrame to a DataFrame: runs inside the JVM."""

    name: str
    inputs: tuple[Node, ...]
    function: Callable[..., Any] = field(repr=False)
    expectations: tuple[Expectation, ...] = ()
    takes: InputFilter = EVERYTHING
    deterministic: bool | None = None  # None: not said, Spark is asked


@dataclass(frozen=True, eq=False, slots=True)
class Each(_Callable):
    """A Python function from one document to none, one or several."""

    name: str
    inputs: tuple[Node, ...]
    function: Callable[..., Any] = field(repr=False)
    timeout_s: float | None = None
    wants_record: bool = False
    effects: bool = False
    takes: InputFilter = EVERYTHING
    deterministic: bool | None = None  # None: not said, so it is not relied on
    outputs: tuple[str, ...] = ()  # names, where it gives a dict of documents by name


@dataclass(frozen=True, eq=False, slots=True)
class Fork(_Callable):
    """A function from a DataFrame to several, by name."""

    name: str
    inputs: tuple[Node, ...]
    function: Callable[..., Any] = field(repr=False)
    outputs: tuple[str, ...]
    takes: InputFilter = EVERYTHING
    deterministic: bool | None = None  # None: not said, Spark is asked


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
    """A step with several outputs, as the flow file goes on from it: branches by name, `sizes["big"]`, or in order."""

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


@dataclass(frozen=True, eq=False, slots=True)
class ClosingStep(_Callable):
    """A function from DataFrames to a DataFrame, run once for each upload of a stream."""

    stream: str
    name: str
    result: str  # the query that gets its rows
    collected: tuple[str, ...]  # the names whose rows it is given, in the order of its parameters
    function: Callable[..., Any] = field(repr=False)
    order_by: tuple[str, ...] = ()  # columns; none: all of them
    columns: tuple[str, ...] | None = None  # of its CSV


def names(what: str, said: Iterable[str] | str) -> tuple[str, ...]:
    """One name or several, each once."""
    found = (said,) if isinstance(said, str) else tuple(said)
    if not all(found) or len(set(found)) < len(found):
        raise BadFlow(f"{what} is one name or several, each once, not {said!r}")
    return found


def _named(step: str, option: str, names: Iterable[str] | None) -> frozenset[str] | None:
    if names is None:
        return None
    named = frozenset() if isinstance(names, str) else frozenset(names)
    if not named or not all(isinstance(name, str) for name in named):
        raise BadFlow(f'step {step!r}: {option}= is one or several names: {option}=("a", "b"), not {names!r}')
    return named
