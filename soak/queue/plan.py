"""What one run of the soak is to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

ASYNCHRONOUS = "many"
SYNCHRONOUS = "single"
INBOXES = (ASYNCHRONOUS, SYNCHRONOUS)
PRODUCERS = 2
SENDING_SHARE = 0.9  # of the time; the rest is for the last answers
HEADROOM = 1.05  # aimed at above the least number of messages, since kills and outages cost some
DISTURBED_AT = (0.4, 0.65)  # of the time

# Short, so that the dead are found within the run, and long enough for a busy machine with two cores.
SECTIONS = {"process": {"heartbeat_s": 0.5, "lease_s": 6.0}, "queue": {"poll_s": 0.5, "caretaker_s": 0.5}}


@dataclass(frozen=True, slots=True)
class Plan:
    """One database, so many seconds, messages and workers; the seed decides who is killed when."""

    database: str
    seconds: float
    messages: int
    workers: int
    kill_every_s: float
    seed: int

    @property
    def name(self) -> str:
        return {"sqlite": "SQLite", "postgres": "PostgreSQL"}[self.database]


def handled_journal(home: Path, slot: int) -> Path:
    return home / f"worker-{slot}.journal"


def sent_journal(home: Path, slot: int) -> Path:
    return home / f"producer-{slot}.journal"


def sections(database: dict[str, Any], name: str) -> dict[str, Any]:
    """The settings of one process of the soak."""
    return {"database": database, "queue": SECTIONS["queue"], "process": {**SECTIONS["process"], "name": name}}
