"""Stages, batches and gaps for programs: one shape for the command line and the API."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from towpath.clock import to_datetime
from towpath.flow.codes import MEANINGS
from towpath.flow.ledger_row import Batch, Gap
from towpath.flow.look import Look
from towpath.flow.pilot import Pilot

_OF_GAP = (
    "stage",
    "generation",
    "topic",
    "topic_id",
    "partition",
    "start",
    "stop",
    "reason",
    "batch_id",
    "noticed_at",
)


def stage_item(look: Look) -> dict[str, Any]:
    """A stage: what it is doing, how far it is, and who runs it."""
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


def stage_view(look: Look, totals: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with what it is made of and all that it has counted."""
    return {
        **stage_item(look),
        "version": look.stage.version,
        "topology": look.stage.topology,
        "checkpoint": look.stage.checkpoint,
        "totals": totals,
        "created_at": look.stage.created_at,
    }


def batch_item(batch: Batch) -> dict[str, Any]:
    return {
        "flow": batch.flow,
        "stage": batch.stage,
        "generation": batch.generation,
        "batch_id": batch.batch_id,
        "hash": batch.hash,
        "state": batch.state,
        "attempts": batch.attempts,
        "counts": batch.counts,
        "timings": batch.timings,
        "positions": batch.positions.to_value(),
        "started_at": batch.started_at,
        "decided_at": batch.decided_at,
        "committed_at": batch.committed_at,
    }


def gap_item(gap: Gap) -> dict[str, Any]:
    return {name: getattr(gap, name) for name in _OF_GAP}


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
