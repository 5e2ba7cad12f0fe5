"""Stages as the database has them, with who runs them; and as JSON for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from towpath.cli.flow_words import MEANINGS, state_word
from towpath.clock import to_datetime
from towpath.flow.stage_store import Stage, StageStore

if TYPE_CHECKING:
    from datetime import datetime

    from towpath.db.processes import ProcessRow
    from towpath.flow.pilot import Pilot
    from towpath.runtime import Runtime

NOBODY = "nobody"
ALIVE = "alive"


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


def looks(runtime: Runtime, flow: str | None = None, stage: str | None = None) -> list[Look]:
    """All stages, those of a flow, or one; `UnknownFlow` when what is named is not there."""
    from towpath.db.processes import ProcessStore
    from towpath.errors import UnknownFlow

    store = StageStore(runtime.database)
    with runtime.database.read() as tx:
        found = [store.read(tx, flow, stage)] if flow and stage else store.list(tx, flow)
        if flow is not None and not found:
            raise UnknownFlow(flow, {each.flow for each in store.list(tx)})
    with runtime.database.beats.read() as tx:
        processes = {row.id: row for row in ProcessStore(runtime.database).all(tx)}
    now = runtime.database.now()
    return [_look(each, processes.get(each.owner or ""), now) for each in found]


def _look(stage: Stage, owner: ProcessRow | None, now: int) -> Look:
    if stage.owner is None:
        return Look(stage, None, NOBODY, now)
    if owner is None:
        return Look(stage, None, "gone", now)
    is_overdue = owner.state == ALIVE and owner.lease_until < to_datetime(now)
    return Look(stage, owner, "overdue" if is_overdue else owner.state, now)


def look_item(look: Look) -> dict[str, Any]:
    """A stage for programs."""
    stage, sample = look.stage, look.stage.sample
    wish = stage.wish
    return {
        "flow": stage.flow,
        "stage": stage.name,
        **_pilot_item(stage.pilot),
        "is_idle": look.state != stage.pilot.state,
        "generation": stage.generation,
        "owner": stage.owner,
        "is_run": look.is_run,
        "runner": look.runner,
        "pid": look.owner.pid if look.owner else None,
        "host": look.owner.host if look.owner else None,
        "rate": sample.get("rate", 0.0) if look.is_run else 0.0,
        "lag": sample.get("lag"),
        "partitions": sample.get("partitions", []),
        "wish": {"kind": wish.kind, "who": wish.who, "why": wish.why, "at": wish.at} if wish else None,
        "updated_at": stage.updated_at,
    }


def _pilot_item(pilot: Pilot) -> dict[str, Any]:
    error = pilot.last_error
    return {
        "state": pilot.state,
        "since": to_datetime(pilot.since),
        "reason": pilot.reason,
        "attempt": pilot.attempt,
        "next_try_at": _time(pilot.next_try),
        "resumes": pilot.resumes,
        "batch_id": pilot.batch_id,
        "last_error": {
            "code": int(error.code),
            "meaning": MEANINGS[error.code],
            "step": error.step,
            "message": error.message,
            "at": to_datetime(error.at),
        }
        if error
        else None,
    }


def _time(micros: int | None) -> datetime | None:
    return None if micros is None else to_datetime(micros)
