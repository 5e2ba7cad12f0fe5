"""A sink that takes everything and keeps nothing: for trying out what a batch does, without doing it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from towpath.flow.sinks.sink import Deliveries, Place, Refusal, Sink
from towpath.flow.template import Template
from towpath.settings import Settings


@dataclass(frozen=True, slots=True)
class Nowhere:
    """Stands in for another sink: names and ids are made as for that one."""

    target: Template
    id: Template | None
    routing: Template | None
    is_idempotent: bool = True
    may_refuse: bool = False

    @classmethod
    def instead_of(cls, sink: Sink) -> Nowhere:
        return cls(sink.target, sink.id, sink.routing)

    def check(self, settings: Settings) -> None:
        pass

    def writer(self, place: Place) -> Nowhere:
        return self

    def write(self, deliveries: Deliveries) -> Iterable[Refusal]:
        return ()

    def finish(self) -> Iterable[Refusal]:
        return ()

    def close(self) -> None:
        pass

    def __str__(self) -> str:
        return f"nowhere, instead of {self.target}"
