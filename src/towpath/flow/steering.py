"""Steering flows by hand. The process that runs a stage does what is wanted at its next turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from towpath.db import Database, Transaction
from towpath.db.by_hand import commit_by_hand
from towpath.db.event_log import EventLog
from towpath.errors import IllegalWish
from towpath.events import Event, EventKind
from towpath.flow.look import Look, looks
from towpath.flow.pilot import PilotState
from towpath.flow.stage_store import StageStore
from towpath.flow.wish import POSSIBLE, WishKind, refusal


class Steering:
    """Asks something of stages. Each wish leaves an event with who, what and why."""

    def __init__(self, database: Database, event_log: EventLog) -> None:
        self._database = database
        self._event_log = event_log
        self._stages = StageStore(database)

    def ask(
        self,
        flow: str,
        kind: WishKind,
        *,
        who: str,
        why: str,
        stage: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> list[Look]:
        """Of every stage in which it is possible, or of one; returns these as they were. Raises `IllegalWish`."""
        found = looks(self._database, flow, stage)
        possible = [look for look in found if look.stage.pilot.state in POSSIBLE[kind]]
        _check(flow, kind, found, possible)

        def act(tx: Transaction) -> None:
            for look in possible:
                self._stages.ask(tx, flow, look.stage.name, kind, who, why, arguments)
                data = {"wish": kind, **(arguments or {})}
                event = Event(EventKind.FLOW_ASKED_BY_HAND, f"{flow}/{look.stage.name}", who, why, data)
                self._event_log.record(tx, event)

        commit_by_hand(self._database, act)
        return possible


def _check(flow: str, kind: WishKind, found: Sequence[Look], possible: Sequence[Look]) -> None:
    if not possible:
        first = found[0].stage
        if kind is WishKind.RESUME and first.pilot.state is PilotState.STOPPED:
            raise IllegalWish(f"{flow}/{first.name} is stopped: `towpath run` starts it")
        raise refusal(flow, first.name, kind, first.pilot.state)
    if kind is WishKind.STOP and not any(look.is_run for look in possible):
        raise IllegalWish(f"nobody runs {flow}/{possible[0].stage.name}: there is nothing to stop")


def is_done(kind: WishKind, was: Look, look: Look) -> bool:
    """A stage takes a wish at its next turn, and does it when its present batch is over."""
    if look.stage.wish is not None:
        return False
    match kind:
        case WishKind.PAUSE:
            return look.stage.pilot.state is PilotState.PAUSED
        case WishKind.STOP:
            return look.stage.pilot.is_resting
        case WishKind.RESET:
            return look.stage.generation > was.stage.generation
    return True
