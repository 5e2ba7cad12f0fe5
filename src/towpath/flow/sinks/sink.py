"""What a sink is: a description that goes to the workers, and a writer that each of their tasks opens.

A sink is made by the flow file, checked once on the driver (`check`), sent to the workers (so it must be picklable),
and asked there for a writer: one for each task. The writer is handed deliveries in the order of the input and may keep
several requests under way; when `finish` has returned, all that it was handed and did not refuse can be read from the
sink, also after a power cut if the sink promises that.

A writer tells three things apart:

- a single delivery that the sink will not take: a `Refusal`, and the others go on;
- a sink that takes nothing at present (away, 5xx, 401, 429, …): `SinkError`, after which the pilot tries the whole
  batch again, for ever;
- a request that was too large: the writer's own business; it sends smaller ones.

A batch may be tried again from its beginning, after a crash too, and by a process that does not know that it was
replaced. A sink takes a delivery once in one of two ways: it knows it again by its id or its delivery id; or it writes
`place.mark(part)` in the same atomic act as the rows, looks for that mark before it writes, and passes over what is
there (`place.strategy.has_marks` says whether it should). A sink that can do neither says so: `is_idempotent` is False.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import orjson

from towpath.flow.codes import ErrorCode
from towpath.flow.mark import Mark
from towpath.flow.strategy import Strategy
from towpath.flow.template import Template
from towpath.settings import Settings


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


class Writer(Protocol):
    """Writes what one task has for one output. Used by one thread."""

    def write(self, deliveries: Deliveries) -> Iterable[Refusal]:
        """Take these; what comes back may also be about earlier ones."""

    def finish(self) -> Iterable[Refusal]:
        """Make everything visible and durable, and tell what else was refused."""

    def close(self) -> None:
        """Let go of connections, also after an error. What was not finished may or may not be visible."""


@dataclass(frozen=True, slots=True)
class Place:
    """Who opens a writer: names that are the same whenever this part of this batch is tried again."""

    flow: str
    stage: str
    output: str
    hash: str  # of the batch
    unit: str  # of the task
    settings: Settings = field(repr=False)
    generation: int = 1
    batch_id: int = 0
    strategy: Strategy = Strategy.AT_LEAST_ONCE
    launch: int = 0  # of the driver: who was started later has a higher one, and may keep an earlier one from writing
    marks_since: Mapping[int, int] = field(default_factory=dict)  # where in the marks topic those of this batch begin
    outages: int = 0  # how often what sinks refused of this batch was found to be no fault of the records

    def mark(self, part: int = 0) -> Mark:
        return Mark(self.flow, self.stage, self.generation, self.batch_id, self.output, self.unit, part)


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

    def writer(self, place: Place) -> Writer:
        """Open a writer, on a worker."""

    def __str__(self) -> str:
        """For people: kind and target, without secrets."""


def takes_once(sink: Sink) -> bool:
    """Whether a flow with this sink can be exactly-once. One of ours is idempotent by marks alone, and says so."""
    return sink.is_idempotent or getattr(sink, "has_marks", False)
