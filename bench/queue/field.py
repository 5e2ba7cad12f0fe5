"""What a store, its durability and a participant are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

TOWPATH = "towpath"


class Store(StrEnum):
    """The database below a queue."""

    SQLITE = "SQLite"
    POSTGRES = "PostgreSQL"


class Setting(Enum):
    """A store with its durability; the second part is what a connection must report while it works."""

    SQLITE_NORMAL = (Store.SQLITE, "normal", "1")
    SQLITE_FULL = (Store.SQLITE, "full", "2")
    POSTGRES_ON = (Store.POSTGRES, "on", "on")

    @property
    def store(self) -> Store:
        return self.value[0]

    @property
    def synchronous(self) -> str:
        return self.value[1]

    @property
    def reported(self) -> str:
        return self.value[2]

    @property
    def title(self) -> str:
        if self.store == Store.SQLITE:
            return f"SQLite WAL, synchronous {self.synchronous.upper()}"
        return "PostgreSQL, synchronous_commit on"


@dataclass(frozen=True)
class Counts:
    """How many messages each operation is measured with: about a second of work each."""

    send: int
    send_batches: int
    drain_one: int
    drain_best: int


@dataclass(frozen=True)
class Entry:
    """One queue on one store; a batch of 0 says that it has no such call."""

    name: str
    version: str
    store: Store
    module: str
    send_batch: int
    drain_batch: int
    counts: Counts
    settings: str
    contract: str
    # False where two reading processes get the same messages.
    two_workers: bool = True

    @property
    def is_towpath(self) -> bool:
        return self.name == TOWPATH
