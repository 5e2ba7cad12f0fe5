"""What client and workers of the demo have to agree on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

INBOX = "numbers"
FUNCTION = "square"
CLIENT = "client"
WORKERS = ("worker-1", "worker-2")
VICTIM = WORKERS[0]

THREADS = 4  # messages that one worker has in hand at once
WORK_S = 0.01  # how long each takes it

# Said by the client to a worker, and by a worker to the client.
HOLD = "hold"
READY = "ready"
HOLDING = "holding"


def settings_of(directory: Path, name: str) -> dict[str, Any]:
    """Settings with a short lease, so that a death is noticed within seconds."""
    return {
        "database": {"url": database_url(directory), "auto_upgrade": True, "synchronous": "full"},
        "process": {"name": name, "heartbeat_s": 0.3, "lease_s": 1.5},
        "queue": {"caretaker_s": 0.3},
    }


def database_url(directory: Path) -> str:
    return f"sqlite:///{directory / 'towpath.db'}"


def journal_of(directory: Path, name: str) -> Path:
    """Where a worker notes what it has worked on, independently of the database."""
    return directory / f"{name}.journal"
