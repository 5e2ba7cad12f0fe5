"""Flows: what is asked of them, and stages, batches and gaps as the command line and the API show them.

Messages of errors quote records, and nobody can tell which part of one is masked. So whoever may not see all fields of
a flow's records sees neither why a stage waits or rests nor the message of its last error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from towpath.core.clock import to_datetime
from towpath.desk.masks import MASK
from towpath.flow.delivery.ledger import added
from towpath.flow.delivery.places import counts_of
from towpath.flow.failures import MEANINGS
from towpath.flow.stage.history import lag_points
from towpath.operations.model import Item, Named, RequestBody, Why

if TYPE_CHECKING:
    from towpath.desk.masks import Mask, Masks
    from towpath.flow.delivery.ledger import Batch, Gap
    from towpath.flow.stage import StageMachine
    from towpath.flow.stage.history import BatchHistory
    from towpath.flow.stage.status import StageStatus


Totals = Mapping[str, Mapping[str, Any]]  # by stage

_OF_GAP = (
    *("stage", "generation", "topic", "topic_id", "partition", "start", "stop", "reason", "batch_id", "noticed_at"),
)


class Flows(BaseModel):
    """Flows, by name, each with its stages."""

    items: list[Item]


class FlowCommandRequest(RequestBody):
    """Something that is wanted of a flow, or of one of its stages."""

    stage: Named | None = Field(None, description="Only of this stage; otherwise of all in which it is possible.")
    why: Why


class ResetTo(RequestBody):
    """Where a flow is to go on."""

    to: Literal["earliest", "latest"] = Field("earliest", description="What is still there, or what comes next.")
    stage: Named | None = Field(None, description="Only this stage; otherwise all of them.")


class Reset(ResetTo):
    """A reset."""

    why: Why


class FlowCommandResult(BaseModel):
    """The stages that were asked, as they are; `is_done` says whether the process that runs one has done it yet."""

    items: list[Item]


def flow_item(flow: str, stages: Sequence[StageStatus], totals: Totals, masks: Masks) -> Item:
    """A flow with its stages, and what they came to together. A lag is known when all of them know theirs."""
    items = [stage_shown(look, masks) for look in stages]
    lags = [item["lag"] for item in items]
    total: Mapping[str, Any] = {}
    for each in totals.values():
        total = added(total, each)
    return {
        "flow": flow,
        "stages": items,
        "lag": None if None in lags else sum(lags),
        "rate": round(sum(item["rate"] for item in items), 1),
        "counts": counts_of(total),
        "errors": total.get("failed", {}),
    }


def stage_shown(look: StageStatus, masks: Masks) -> Item:
    """A stage in a list, as this person may see it."""
    return _hidden(stage_item(look), masks.of(look.stage.flow))


def stage_whole(look: StageStatus, totals: Totals, masks: Masks) -> Item:
    """A stage with all that is known of it, as this person may see it."""
    return _hidden(stage_view(look, totals.get(look.stage.name, {})), masks.of(look.stage.flow))


def stage_item(look: StageStatus) -> Item:
    """A stage: what it is doing, how far it is, and who runs it."""
    stage, sample = look.stage, look.stage.sample
    wish = stage.wish
    return {
        "flow": stage.flow,
        "stage": stage.name,
        **_machine_item(stage.machine),
        "is_idle": look.state != stage.machine.state,
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


def stage_view(look: StageStatus, totals: Mapping[str, Any]) -> Item:
    """The same, with what it is made of and all that it has counted."""
    return {
        **stage_item(look),
        "version": look.stage.version,
        "topology": look.stage.topology,
        "checkpoint": look.stage.checkpoint,
        "totals": totals,
        "created_at": look.stage.created_at,
    }


def batch_item(batch: Batch) -> Item:
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


def gap_item(gap: Gap) -> Item:
    return {name: getattr(gap, name) for name in _OF_GAP}


def past_item(look: StageStatus, past: BatchHistory) -> Item:
    """What batches came to by time, and the lag as the stage has seen it."""
    return {
        "stage": look.stage.name,
        "since": past.since,
        "width_s": past.width.total_seconds(),
        "committed": [
            {"at": each.at, "batches": each.batches, "read": each.read, "failed": dict(each.failed)}
            for each in past.stretches
        ],
        "lag": [
            {"at": to_datetime(point.at * 1_000_000), "lag": point.lag, "rate": point.rate}
            for point in lag_points(look.stage.sample)
        ],
    }


def _machine_item(machine: StageMachine) -> Item:
    error = machine.last_error
    return {
        "state": machine.state,
        "since": to_datetime(machine.since),
        "reason": machine.reason,
        "attempt": machine.attempt,
        "next_try_at": None if machine.next_try is None else to_datetime(machine.next_try),
        "resumes": machine.resumes,
        "batch_id": machine.batch_id,
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


def _hidden(item: Item, mask: Mask) -> Item:
    if not mask:
        return item
    error = item["last_error"]
    reason = MASK if item["reason"] else item["reason"]
    return {**item, "reason": reason, "last_error": None if error is None else {**error, "message": MASK}}
