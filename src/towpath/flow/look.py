"""Stages as the database has them, with who runs them. Neither Spark nor the flow file is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from towpath.clock import to_datetime
from towpath.db import Database
from towpath.db.processes import ProcessRow, ProcessStore
from towpath.errors import UnknownFlow
from towpath.flow.pilot import Pilot, PilotState
from towpath.flow.stage_store import Stage, StageStore

NOBODY = "nobody"
ALIVE = "alive"
IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Look:
    """A stage at one moment. `runner` is alive, overdue, dead, stopped, gone or nobody."""

    stage: Stage
    owner: ProcessRow | None
    runner: str
    now: int

    @property
    def is_run(self) -> bool:
        return self.runner == ALIVE

    @property
    def state(self) -> str:
        return state_word(self.stage.pilot, self.stage.sample)

    @property
    def run_by(self) -> str:
        """For people."""
        if self.runner == NOBODY:
            return NOBODY
        if self.is_run and self.owner is not None:
            return f"{self.stage.owner} (pid {self.owner.pid} on {self.owner.host})"
        return f"nobody: {self.stage.owner} is {self.runner}"


def looks(database: Database, flow: str | None = None, stage: str | None = None) -> list[Look]:
    """All stages, those of a flow, or one; `UnknownFlow` when what is named is not there."""
    store = StageStore(database)
    with database.read() as tx:
        found = [store.read(tx, flow, stage)] if flow and stage else store.list(tx, flow)
        if flow is not None and not found:
            raise UnknownFlow(flow, {each.flow for each in store.list(tx)})
    with database.beats.read() as tx:
        processes = {row.id: row for row in ProcessStore(database).all(tx)}
    now = database.now()
    return [_look(each, processes.get(each.owner or ""), now) for each in found]


def state_word(pilot: Pilot, sample: Mapping[str, Any]) -> str:
    """The state; a stage that waits for records is idle."""
    return IDLE if pilot.state is PilotState.EXTRACT and sample.get("lag") == 0 else str(pilot.state)


def _look(stage: Stage, owner: ProcessRow | None, now: int) -> Look:
    if stage.owner is None:
        return Look(stage, None, NOBODY, now)
    if owner is None:
        return Look(stage, None, "gone", now)
    is_overdue = owner.state == ALIVE and owner.lease_until < to_datetime(now)
    return Look(stage, owner, "overdue" if is_overdue else owner.state, now)
