"""A duty is a process that has to run, by name: its row, its states and every move between them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from towpath.core.clock import to_datetime
from towpath.db.database import Row

BELL = "supervision"  # wakes the coordinator: something about a duty has changed


class DutyState(StrEnum):
    """How a duty is done. docs/reference/supervision-states.md is held equal to this."""

    WAITING = "waiting"  # it is to run, and nobody has started it
    STARTING = "starting"  # it has a launch; its process may not be there yet, or not be ready
    READY = "ready"  # its process is at work
    STOPPING = "stopping"  # its process was told to end
    STOPPED = "stopped"  # it does not run, as was wished
    DOWN = "down"  # its process has died, the next start is due at a set time
    FAILED = "failed"  # its process has died too often before it was ready: somebody should look


class DutyMove(StrEnum):
    """What can happen to a duty. The value is the label of its arrow in the chart."""

    LAUNCH = "launched"
    READY = "shown ready"
    STOP = "told to stop"
    DIE = "died"
    GIVE_UP = "given up"
    END = "ended"
    MAKE_WAY = "ended for a new start"
    CANCEL = "not wanted"
    WANT = "wanted"


@dataclass(frozen=True, slots=True)
class DutyArrow:
    """One move: from which states, to which."""

    sources: tuple[DutyState, ...]
    target: DutyState


_WAITING, _STARTING, _READY, _STOPPING, _STOPPED, _DOWN, _FAILED = DutyState


MOVES: dict[DutyMove, DutyArrow] = {
    DutyMove.LAUNCH: DutyArrow((_WAITING, _DOWN), _STARTING),
    DutyMove.READY: DutyArrow((_STARTING,), _READY),
    DutyMove.STOP: DutyArrow((_STARTING, _READY), _STOPPING),
    DutyMove.DIE: DutyArrow((_STARTING, _READY), _DOWN),
    DutyMove.GIVE_UP: DutyArrow((_DOWN,), _FAILED),
    DutyMove.END: DutyArrow((_STOPPING,), _STOPPED),
    DutyMove.MAKE_WAY: DutyArrow((_STOPPING,), _WAITING),
    DutyMove.CANCEL: DutyArrow((_WAITING, _DOWN, _FAILED), _STOPPED),
    DutyMove.WANT: DutyArrow((_STOPPED, _DOWN, _FAILED), _WAITING),
}


RUNNING = (*MOVES[DutyMove.STOP].sources, _STOPPING)  # they have a launch, and perhaps a process


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
class NewDuty:
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


class DeathKind(StrEnum):
    """How a death was noticed."""

    EXIT = "exit"  # its launcher has seen it end, with an exit code
    SIGNAL = "signal"  # its launcher has seen it end, by a signal
    SILENCE = "silence"  # it neither beat nor answered, and was killed
    GONE = "gone"  # nothing was found of it
    NEVER_READY = "never ready"  # it was not ready in time, or could not be started
