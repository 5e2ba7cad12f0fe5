"""What a sink is: a description that goes to the workers, and a writer that each of their tasks opens.

A sink is made by the flow file, checked once on the driver (`check`), sent to the workers (so it must be picklable),
and asked there for a writer: one for each task. The writer is handed deliveries in the order of the input and may keep
several requests under way; when `finish` has returned, all that it was handed and did not refuse can be read from the
sink, also after a power cut if the sink promises that.

A writer tells three things apart:

- a single delivery that the sink will not take: a `Refusal`, and the others go on;
- a sink that takes nothing at present (away, 5xx, 401, 429, …): `SinkError`, after which the stage tries the whole
  batch again, for ever;
- a request that was too large: the writer's own business; it sends smaller ones.

A batch may be tried again from its beginning, after a crash too, and by a process that does not know that it was
replaced. A sink takes a delivery once in one of two ways: it knows it again by its id or its delivery id; or it writes
`place.mark(part)` in the same atomic act as the rows, looks for that mark before it writes, and passes over what is
there (`place.strategy.has_marks` says whether it should). A sink that can do neither says so: `is_idempotent` is False.

The audit reads an output back by a `SinkReader`, which each kind of sink has in its `reader` module. A sink of a
user's own may have a method `delivered()` that gives the delivery ids it holds, as bytes (`OwnSink`).
"""

from __future__ import annotations

import hashlib
import pickle
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import IO, Any, NamedTuple, Protocol, runtime_checkable

import orjson

from towpath.flow.delivery.ids import Strategy
from towpath.flow.delivery.marks import Mark
from towpath.flow.failures import ErrorCode
from towpath.flow.sinks.template import Template
from towpath.settings import Settings

IN_MEMORY_BYTES = 64 << 20

_LINE_ENDS = bytes.maketrans(b"\n\r", b"  ")


class Sink(Protocol):
    """One output of a flow."""

    @property
    def target(self) -> Template:
        """Which index, table, topic or directory; may differ from record to record."""

    @property
    def id(self) -> Template | None:
        """None: from the record's coordinates."""

    @property
    def routing(self) -> Template | None:
        """What decides the shard, where a sink has them."""

    @property
    def is_idempotent(self) -> bool:
        """Whether a delivery that comes twice is there once: known again by its id, or kept out by a mark."""

    @property
    def may_refuse(self) -> bool:
        """Whether it can refuse single deliveries that were well made. Those that can are written to first."""

    def check(self, settings: Settings) -> None:
        """Raise `BadSettings` or `SinkError` when nothing could be written: wrong option or password, no server."""

    def writer(self, place: WriterContext) -> Writer:
        """Open a writer, on a worker."""

    def __str__(self) -> str:
        """For people: kind and target, without secrets."""


def takes_once(sink: Sink) -> bool:
    """Whether a flow with this sink can be exactly-once. One of ours is idempotent by marks alone, and says so."""
    return sink.is_idempotent or getattr(sink, "has_marks", False)


class Writer(Protocol):
    """Writes what one task has for one output. Used by one thread."""

    def write(self, deliveries: Deliveries) -> Iterable[Refusal]:
        """Take these; what comes back may also be about earlier ones."""

    def finish(self) -> Iterable[Refusal]:
        """Make everything visible and durable, and tell what else was refused."""

    def close(self) -> None:
        """Let go of connections, also after an error. What was not finished may or may not be visible."""


@dataclass(frozen=True, slots=True)
class WriterContext:
    """The unit that a writer is opened for: names that are the same whenever it is tried again."""

    flow: str
    stage: str
    output: str
    hash: str  # of the batch
    unit: str  # of the task
    settings: Settings = field(repr=False)
    generation: int = 1
    batch_id: int = 0
    strategy: Strategy = Strategy.AT_LEAST_ONCE
    launch: int = 0  # of the driver: a later one has a higher number, and may keep an earlier one from writing
    marks_since: Mapping[int, int] = field(default_factory=dict)  # where in the marks topic those of this batch begin
    outages: int = 0  # how often what sinks refused of this batch was found to be no fault of the records

    def mark(self, part: int = 0) -> Mark:
        return Mark(self.flow, self.stage, self.generation, self.batch_id, self.output, self.unit, part)


@dataclass(slots=True)
class Deliveries:
    """Some deliveries to one output, column by column; all columns have the same length.

    `payloads` are JSON objects as text, the bytes of the input wherever no step has changed them. `documents` are the
    same as Python values. `versions` grow with the input: of two deliveries with the same id the higher one is newer.
    """

    payloads: Sequence[bytes]
    targets: Sequence[str]
    ids: Sequence[str]
    delivery_ids: Sequence[bytes]
    versions: Sequence[int]
    keys: Sequence[bytes | None]
    timestamps_ms: Sequence[int]
    routings: Sequence[str] | None = None
    source: Any = None  # where the caller finds the records again when one of them is refused
    parsed: Sequence[Mapping[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def documents(self) -> Sequence[Mapping[str, Any]]:
        if self.parsed is None:
            self.parsed = [orjson.loads(payload) for payload in self.payloads]
        return self.parsed

    def only(self, places: Sequence[int]) -> Deliveries:
        """Those at these places."""

        def kept(column: Sequence[Any]) -> list[Any]:
            return [column[at] for at in places]

        return Deliveries(
            kept(self.payloads),
            kept(self.targets),
            kept(self.ids),
            kept(self.delivery_ids),
            kept(self.versions),
            kept(self.keys),
            kept(self.timestamps_ms),
            None if self.routings is None else kept(self.routings),
            None if self.source is None else self.source.only(places),
            None if self.parsed is None else kept(self.parsed),
        )

    def by_target(self) -> dict[str, list[int]]:
        """The places of the deliveries to each target, in their order."""
        places: dict[str, list[int]] = {}
        for at, target in enumerate(self.targets):
            places.setdefault(target, []).append(at)
        return places


class Refusal(NamedTuple):
    """One delivery that the sink will not take, at place `at` of the deliveries that it was handed."""

    deliveries: Deliveries
    at: int
    code: ErrorCode
    exception: str
    message: str


class DeliveryBuffer:
    """Deliveries that may be needed again, or not before later: in memory, and in a file when there are many.

    May be gone through again and again, in the order in which they came.
    """

    def __init__(self, shares: int = 1) -> None:
        self._most_bytes = IN_MEMORY_BYTES // shares  # where several share the memory of a task
        self._held: list[Deliveries] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None

    def add(self, deliveries: Deliveries) -> None:
        slim = _slim(deliveries)
        if self._bytes <= self._most_bytes:
            self._held.append(slim)
            self._bytes += sum(map(len, slim.payloads))
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open until it is cleared
        self._file.seek(0, 2)
        pickle.dump(slim, self._file, pickle.HIGHEST_PROTOCOL)

    def __iter__(self) -> Iterator[Deliveries]:
        yield from self._held
        if self._file is None:
            return
        self._file.seek(0)
        while True:
            try:
                yield pickle.load(self._file)  # noqa: S301 - written by ourselves a moment ago
            except EOFError:
                return

    def clear(self) -> None:
        self._held, self._bytes = [], 0
        if self._file is not None:
            self._file.close()
            self._file = None


def _slim(deliveries: Deliveries) -> Deliveries:
    """Without documents: of where it came from only the records are needed, where one is refused."""
    source = deliveries.source
    slim = source.only(range(len(deliveries))) if hasattr(source, "only") else source
    return replace(deliveries, source=slim, parsed=None)


@dataclass(frozen=True, slots=True)
class NullSink:
    """Stands in for another sink where a batch is only tried out: names and ids are made, and nothing is kept."""

    target: Template
    id: Template | None
    routing: Template | None
    is_idempotent: bool = True
    may_refuse: bool = False

    @classmethod
    def instead_of(cls, sink: Sink) -> NullSink:
        return cls(sink.target, sink.id, sink.routing)

    def check(self, settings: Settings) -> None:
        pass

    def writer(self, place: WriterContext) -> NullSink:
        return self

    def write(self, deliveries: Deliveries) -> Iterable[Refusal]:
        return ()

    def finish(self) -> Iterable[Refusal]:
        return ()

    def close(self) -> None:
        pass

    def __str__(self) -> str:
        return f"nowhere, instead of {self.target}"


def one_line(payload: bytes) -> bytes:
    """The same JSON on one line: inside a string a raw line end is not JSON, so all there are stand between tokens."""
    return payload.translate(_LINE_ENDS)


def one_line_each(payloads: Sequence[bytes]) -> Sequence[bytes]:
    """The payloads, as they are unless one has a line end."""
    together = b"".join(payloads)
    if b"\n" in together or b"\r" in together:
        return [one_line(payload) for payload in payloads]
    return payloads


class SinkReach(Enum):
    """How much of what was delivered a sink still has."""

    ALL = "all"  # what is not there is missing
    PART = "part"  # something newer may have taken its place, or its time is over


class SinkReader(ABC):
    """Reads one output from its beginning, as often as it is asked to."""

    reach: SinkReach = SinkReach.ALL  # what an absent delivery means
    why_part: str = ""  # why not all of it is kept, where that is so
    per_batch: bool = False  # whether every batch that reads an input again leaves a copy of its own, as after a reset
    is_idempotent: bool = True  # whether a delivery that is there twice is a fault
    flaws: Sequence[Flaw] = ()  # found by the last reading

    @abstractmethod
    def delivered(self) -> Iterator[FoundDelivery]:
        """Everything that is there, in no order."""

    def close(self) -> None:
        """Let go of connections."""


class FoundDelivery(NamedTuple):
    """A delivery that is there, and how a person finds it."""

    delivery_id: bytes
    name: str


class Flaw(NamedTuple):
    """Something in the sink itself that does not fit."""

    where: str
    expected: str
    found: str


class Versioned(NamedTuple):
    """A document whose id is the flow's own, and its version."""

    version: int
    name: str


@dataclass(slots=True)
class UnreadableSink:
    """An output that cannot be read back, and why."""

    why: str


@runtime_checkable
class OwnSink(Protocol):
    """A sink of a user's own that can be read back."""

    is_idempotent: bool

    def delivered(self) -> Iterator[bytes]:
        """The delivery ids of all that it holds; one that it holds twice, twice."""


@dataclass
class OwnReader(SinkReader):
    """Reads a sink that offers `delivered()`."""

    sink: OwnSink

    def __post_init__(self) -> None:
        self.is_idempotent = self.sink.is_idempotent

    def delivered(self) -> Iterator[FoundDelivery]:
        return (FoundDelivery(id, f"delivery {id.hex()}") for id in self.sink.delivered())


def foreign(name: str) -> FoundDelivery:
    """Something that bears no delivery id: no offset gives this one, so it is found to be unknown."""
    return FoundDelivery(hashlib.sha256(b"towpath audit: foreign\n" + name.encode()).digest(), name)
