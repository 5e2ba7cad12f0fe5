"""Stages as the database has them, with who runs them, and commands for them by hand.

Neither Spark nor the flow file is needed. The process that runs a stage does what is wanted at its next turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from towpath.core.clock import to_datetime
from towpath.core.events import Event, EventKind
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog, commit_by_hand
from towpath.db.processes import ProcessRow, ProcessStore
from towpath.errors import IllegalWish, UnknownFlow
from towpath.flow.stage.machine import StageMachine
from towpath.flow.stage.states import POSSIBLE, StageCommandKind, StageState, refusal
from towpath.flow.stage.store import StageRow, StageStore

NOBODY = "nobody"
ALIVE = "alive"
IDLE = "idle"


@dataclass(frozen=True, slots=True)
class StageStatus:
    """A stage at one moment. `runner` is alive, overdue, dead, stopped, gone or nobody."""

    stage: StageRow
    owner: ProcessRow | None
    runner: str
    now: int

    @property
    def is_run(self) -> bool:
        return self.runner == ALIVE

    @property
    def state(self) -> str:
        return state_word(self.stage.machine, self.stage.sample)

    @property
    def run_by(self) -> str:
        """For people."""
        if self.runner == NOBODY:
            return NOBODY
        if self.is_run and self.owner is not None:
            return f"{self.stage.owner} (pid {self.owner.pid} on {self.owner.host})"
        return f"nobody: {self.stage.owner} is {self.runner}"


def stage_statuses(database: Database, flow: str | None = None, stage: str | None = None) -> list[StageStatus]:
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


def state_word(machine: StageMachine, sample: Mapping[str, Any]) -> str:
    """The state; a stage that waits for records is idle."""
    return IDLE if machine.state is StageState.EXTRACT and sample.get("lag") == 0 else str(machine.state)


def _look(stage: StageRow, owner: ProcessRow | None, now: int) -> StageStatus:
    if stage.owner is None:
        return StageStatus(stage, None, NOBODY, now)
    if owner is None:
        return StageStatus(stage, None, "gone", now)
    is_overdue = owner.state == ALIVE and owner.lease_until < to_datetime(now)
    return StageStatus(stage, owner, "overdue" if is_overdue else owner.state, now)


class StageCommands:
    """Asks something of stages. Each wish leaves an event with who, what and why."""

    def __init__(self, database: Database, event_log: EventLog) -> None:
        self._database = database
        self._event_log = event_log
        self._stages = StageStore(database)

    def ask(
        self,
        flow: str,
        kind: StageCommandKind,
        *,
        who: str,
        why: str,
        stage: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> list[StageStatus]:
        """Of every stage in which it is possible, or of one; returns these as they were. Raises `IllegalWish`."""
        found = stage_statuses(self._database, flow, stage)
        possible = [look for look in found if look.stage.machine.state in POSSIBLE[kind]]
        _check(flow, kind, found, possible)

        def act(tx: Transaction) -> None:
            for look in possible:
                self._stages.ask(tx, flow, look.stage.name, kind, who, why, arguments)
                data = {"wish": kind, **(arguments or {})}
                event = Event(EventKind.FLOW_ASKED_BY_HAND, f"{flow}/{look.stage.name}", who, why, data)
                self._event_log.record(tx, event)

        commit_by_hand(self._database, act)
        return possible


def _check(flow: str, kind: StageCommandKind, found: Sequence[StageStatus], possible: Sequence[StageStatus]) -> None:
    if not possible:
        first = found[0].stage
        if kind is StageCommandKind.RESUME and first.machine.state is StageState.STOPPED:
            raise IllegalWish(f"{flow}/{first.name} is stopped: `towpath run` starts it")
        raise refusal(flow, first.name, kind, first.machine.state)
    if kind is StageCommandKind.STOP and not any(look.is_run for look in possible):
        raise IllegalWish(f"nobody runs {flow}/{possible[0].stage.name}: there is nothing to stop")


def is_done(kind: StageCommandKind, was: StageStatus, look: StageStatus) -> bool:
    """A stage takes a wish at its next turn, and does it when its present batch is over."""
    if look.stage.wish is not None:
        return False
    match kind:
        case StageCommandKind.PAUSE:
            return look.stage.machine.state is StageState.PAUSED
        case StageCommandKind.STOP:
            return look.stage.machine.is_resting
        case StageCommandKind.RESET:
            return look.stage.generation > was.stage.generation
    return True
