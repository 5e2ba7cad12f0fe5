"""What a spawned process finds in its environment: its task, and the settings of this process as variables.

Nothing of it stands on a command line, where other users of the machine could read a password.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import Any

from towpath.actors.spawning_life import LAUNCH
from towpath.settings import NESTED, PREFIX, Settings, all_keys

TASK = "SPAWNED_TASK"
ATTEMPTS = 1_000_000  # the spawner counts them: it can say what the processes died of


@dataclass(frozen=True)
class Task:
    """What a spawned process is to do."""

    actor: str
    instance: str
    inbox: str
    entry: str
    command: tuple[str, ...]
    linger_s: float
    grace_s: float

    @classmethod
    def from_environment(cls) -> Task:
        given = json.loads(os.environ[TASK])
        return cls(**{**given, "command": tuple(given["command"])})


def environment(settings: Settings, task: Task, launch_id: str) -> dict[str, str]:
    """All that the process needs, and what this one was given."""
    inherited = {name: value for name, value in os.environ.items() if not name.upper().startswith(PREFIX)}
    own = {
        LAUNCH: launch_id,
        TASK: json.dumps(asdict(task)),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONUNBUFFERED": "1",
    }
    return {**inherited, **variables(settings), f"{PREFIX}PROCESS{NESTED}NAME": task.actor, **own}


def variables(settings: Settings) -> dict[str, str]:
    """Every setting as a variable, so that no file and no default can say something else."""
    values = settings.model_dump(mode="json", by_alias=True)
    return {PREFIX + NESTED.join(keys).upper(): _text(_at(values, keys)) for keys in all_keys()}


def _at(values: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        values = values[key]
    return values


def _text(value: Any) -> str:
    match value:
        case None:
            return "never"
        case str():
            return value
    return json.dumps(value)
