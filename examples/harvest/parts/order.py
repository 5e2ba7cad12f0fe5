"""What a part is told to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID, uuid5

from examples.harvest.home import Home

from towpath import Message, Runtime


@dataclass(frozen=True)
class Order:
    """Which sites, and where things are."""

    home: str
    sites: tuple[str, ...]
    connect_to: Mapping[str, str] = field(default_factory=dict)  # where hosts are that no name server knows
    run: str = ""

    @property
    def house(self) -> Home:
        return Home(Path(self.home))

    @classmethod
    def read(cls, payload: Any) -> Order:
        return cls(payload["home"], tuple(payload["sites"]), dict(payload["connect_to"]), payload["run"])

    def payload(self) -> dict[str, Any]:
        return {
            "home": self.home,
            "sites": list(self.sites),
            "connect_to": dict(self.connect_to),
            "run": self.run,
        }


class Job(Protocol):
    """What a part needs of the process that it runs in."""

    message: Message
    runtime: Runtime

    @property
    def payload(self) -> Any: ...

    def progress(self, percent: float, stage: str = "") -> None: ...


def origin_of(job: Job, order: Order) -> str:
    """Which run of the workflow has ordered it, and by which message."""
    return f"{order.run} {job.message.id}"


def id_of(job: Job, what: str) -> str:
    """The id of what this message makes: the same however often it is tried."""
    return str(uuid5(UUID(job.message.id), what))
