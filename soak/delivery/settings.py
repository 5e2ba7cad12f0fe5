"""The settings of every process of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BATCH = 1_000
SEARCH_S = 600.0
# Short, so that a successor starts soon, and long enough for a busy machine with two cores.
HEARTBEAT_S, LEASE_S = 0.5, 3.0


def sections(home: Path, database: str, log: str) -> dict[str, Any]:
    return {
        "database": {"url": database},
        "log": {"url": log, "timeout_s": 5.0, "transaction_timeout_s": 15.0},
        "process": {"heartbeat_s": HEARTBEAT_S, "lease_s": LEASE_S},
        "spark": {"master": "local[2]"},
        "flow": {
            "directory": str(home / "flows"),
            "trigger_s": 0.1,
            "retry_least_s": 0.1,
            "retry_most_s": 2.0,
            "max_batch_records": BATCH,
            # A killed worker looks like a record that ends its worker, and is searched for: a machine that is slow must
            # not end a run.
            "search_s": SEARCH_S,
        },
    }


def as_toml(values: dict[str, Any]) -> str:
    """For the command line. Only texts and numbers occur."""
    lines = []
    for section, keys in values.items():
        lines.append(f"[{section}]")
        lines += [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"
