"""A duty: a process that has to run, by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from towpath.clock import to_datetime
from towpath.db.database import Row
from towpath.supervision.duty_state import RUNNING, DutyState


@dataclass(frozen=True, slots=True)
class DutySpec:
    """How a process is started that does a duty; kept as JSON."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str | None = None
    limits: Mapping[str, int] = field(default_factory=dict)  # memory_mb, cpu_s, open_files, processes
    launcher: str = "subprocess"
    image: str = ""  # docker only
    reports: bool = True  # it registers, beats and says when it is ready; otherwise only its end can be seen
    grace_s: float = 15.0
    order: int = 0  # stopped from the highest to the lowest

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    @lru_cache(maxsize=2048)  # a coordinator reads all of them several times a second
    def from_json(cls, text: str) -> DutySpec:
        given: dict[str, Any] = json.loads(text)
        return cls(**{**given, "command": tuple(given["command"])})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to run: a duty before it has a row."""

    name: str
    kind: str
    host: str
    spec: DutySpec


@dataclass(frozen=True, slots=True)
class Duty:
    """A duty as its row has it; times are the database's microseconds."""

    name: str
    kind: str
    host: str
    spec: DutySpec
    wish: str
    state: DutyState
    launch: int
    launch_id: str | None
    handle: str | None
    process_id: str | None
    launched_us: int | None
    ready_us: int | None
    exited_us: int | None
    exit_code: int | None
    exit_signal: int | None
    replaced: int | None
    early_deaths: int
    next_try_us: int | None
    trouble: str
    who: str
    why: str
    updated_us: int

    @property
    def is_running(self) -> bool:
        """Whether a process of it may be there."""
        return self.state in RUNNING

    @property
    def is_wanted(self) -> bool:
        return self.wish == "run"

    @property
    def is_replaced(self) -> bool:
        """Whether the present launch is to make way for a new one."""
        return self.replaced == self.launch

    @property
    def has_exited(self) -> bool:
        return self.exited_us is not None

    @property
    def updated_at(self) -> datetime:
        return to_datetime(self.updated_us)

    @property
    def launched_at(self) -> datetime | None:
        return None if self.launched_us is None else to_datetime(self.launched_us)

    @property
    def ready_at(self) -> datetime | None:
        return None if self.ready_us is None else to_datetime(self.ready_us)

    @property
    def next_try_at(self) -> datetime | None:
        return None if self.next_try_us is None else to_datetime(self.next_try_us)

    @classmethod
    def from_row(cls, row: Row) -> Duty:
        name, kind, host, spec, wish, state, *rest = row
        return cls(name, kind, host, DutySpec.from_json(spec), wish, DutyState(state), *rest)
