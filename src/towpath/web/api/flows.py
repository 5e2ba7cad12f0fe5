"""Flows: their stages and batches, what people ask of them, and where their records are.

All of it comes from the database and the log, without Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from itertools import groupby
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from towpath.core.clock import to_datetime
from towpath.desk.record_queries import DeskPlaceSource
from towpath.errors import BadValue
from towpath.flow.audit.audit import audit_within, ledger_balance
from towpath.flow.delivery.ledger import Ledger
from towpath.flow.graph.stages import mermaid
from towpath.flow.stage.history import MEANS, BatchHistoryStore, Mark, batch_page, reset_ahead
from towpath.flow.stage.states import StageCommandKind
from towpath.flow.stage.status import StageCommands, StageStatus, is_done, stage_statuses
from towpath.operations.flows import (
    FlowCommandRequest,
    FlowCommandResult,
    Flows,
    Reset,
    ResetTo,
    batch_item,
    flow_item,
    gap_item,
    past_item,
    stage_shown,
    stage_whole,
)
from towpath.operations.model import Item, MarkedPage
from towpath.operations.traces import Traced, TraceQuery, traced
from towpath.web.auth import FlowKeeper, Reader, runtime_of
from towpath.web.changes import Maker
from towpath.web.failures import PREFIX, FlowName, Limit

router = APIRouter(prefix=f"{PREFIX}/flows", tags=["flows"])
audit_router = APIRouter(prefix=PREFIX, tags=["flows"])

StageName = Annotated[str | None, Query(min_length=1, max_length=300, description="Only this stage.")]
MOST_MINUTES = 24 * 60
MOST_STRETCHES = 1_440
LONGEST_S = 20.0
_MARK = re.compile(r"(\d{1,9})-(\d{1,18})", re.ASCII)


@router.get("")
def flows(request: Request, principal: Reader) -> Flows:
    """All flows that have run here: what each stage is doing, how far behind it is, and what has failed."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    ledger = Ledger(runtime.database)
    found = {
        name: list(stages) for name, stages in groupby(stage_statuses(runtime.database), lambda look: look.stage.flow)
    }
    with runtime.database.read() as tx:
        totals = {name: ledger.totals(tx, name) for name in found}
    return Flows(items=[flow_item(name, stages, totals[name], masks) for name, stages in found.items()])


@router.get("/{flow}")
def show(request: Request, flow: FlowName, principal: Reader) -> Item:
    """One flow: what its stages read, do and write, how far they are in each partition, and what is never read."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    found = stage_statuses(runtime.database, flow)
    ledger = Ledger(runtime.database)
    with runtime.database.read() as tx:
        totals, gaps = ledger.totals(tx, flow), ledger.gaps(tx, flow)
    return {
        "flow": flow,
        "stages": [stage_whole(look, totals, masks) for look in found],
        "gaps": [gap_item(gap) for gap in gaps],
        "mermaid": mermaid([look.stage.topology for look in found]),
    }


@router.get("/{flow}/batches")
def batches(
    request: Request,
    flow: FlowName,
    principal: Reader,
    stage: StageName = None,
    limit: Limit = 100,
    before: Annotated[str | None, Query(max_length=2_000, description="Go on where a page ended: its `next`.")] = None,
) -> MarkedPage[Item]:
    """The ledger: what each batch read and what became of it, the one that began last first."""
    marks = None if before is None else read_marks(before, "before: write what a page had under `next`")
    found = batch_page(runtime_of(request).database, flow, stage=stage, limit=limit, marks=marks)
    if found is None:
        raise BadValue("before: it is of another page; write what a page with the same flow and stage had under `next`")
    return MarkedPage(items=[batch_item(each) for each in found.batches], next=marks_text(found.next))


@router.get("/{flow}/history")
def history(
    request: Request,
    flow: FlowName,
    principal: Reader,
    stage: StageName = None,
    minutes: Annotated[int, Query(ge=1, le=MOST_MINUTES, description="How far back.")] = 60,
    width_s: Annotated[int, Query(ge=1, le=3600, description="How long a stretch of time is.")] = 60,
) -> Item:
    """For charts: what was read and what failed by time, out of the ledger, and the lag of the last hour.

    Only the newest batches of a stage are looked at: its `since` says from when on this is all.
    """
    if minutes * 60 > width_s * MOST_STRETCHES:
        raise BadValue(f"that would be more than {MOST_STRETCHES:,} stretches: ask for fewer minutes or a larger width")
    database = runtime_of(request).database
    found, store = stage_statuses(database, flow, stage), BatchHistoryStore(database)
    since = to_datetime(database.now()) - timedelta(minutes=minutes)
    with database.read() as tx:
        width = timedelta(seconds=width_s)
        past = [store.read(tx, flow, look.stage.name, since, width) for look in found]
    items = [past_item(look, each) for look, each in zip(found, past, strict=True)]
    return {"flow": flow, "stages": items}


@router.post("/{flow}/pause", response_model=FlowCommandResult)
def pause(request: Request, flow: FlowName, sent: FlowCommandRequest, principal: FlowKeeper, maker: Maker) -> Response:
    """Let it rest until somebody says resume, also over a restart. Its process goes on."""
    return _ask(request, flow, StageCommandKind.PAUSE, sent, principal, maker)


@router.post("/{flow}/resume", response_model=FlowCommandResult)
def resume(request: Request, flow: FlowName, sent: FlowCommandRequest, principal: FlowKeeper, maker: Maker) -> Response:
    """Go on after a pause or a halt. A stage that waits for its next try makes it now."""
    return _ask(request, flow, StageCommandKind.RESUME, sent, principal, maker)


@router.post("/{flow}/stop", response_model=FlowCommandResult)
def stop(request: Request, flow: FlowName, sent: FlowCommandRequest, principal: FlowKeeper, maker: Maker) -> Response:
    """End it after its present batch. Its process ends when none of its stages is left."""
    return _ask(request, flow, StageCommandKind.STOP, sent, principal, maker)


@router.post("/{flow}/reset", response_model=FlowCommandResult)
def reset(request: Request, flow: FlowName, sent: Reset, principal: FlowKeeper, maker: Maker) -> Response:
    """Begin anew from other positions, with a new checkpoint: records may be loaded again, or never."""
    return _ask(request, flow, StageCommandKind.RESET, sent, principal, maker, {"to": sent.to})


@router.post("/{flow}/reset/count")
def reset_count(request: Request, flow: FlowName, sent: ResetTo, principal: Reader) -> Item:
    """A dry run: what a reset would pass over and what it would read again, in offsets. Changes nothing."""
    runtime = runtime_of(request)
    found = reset_ahead(runtime.database, runtime.log, flow, sent.to, sent.stage)
    return {
        "flow": flow,
        "to": sent.to,
        "means": MEANS[sent.to],
        "passed_over_at_most": sum(each.passed_over for each in found),
        "read_again_at_most": sum(each.read_again for each in found),
        "partitions": [each.to_json() for each in found],
    }


@audit_router.get("/flows/{flow}/audit")
def audit(
    request: Request,
    flow: FlowName,
    principal: Reader,
    within_s: Annotated[
        float, Query(ge=0, le=LONGEST_S, description="How long to count records; 0: take the ledger's word.")
    ] = 5.0,
) -> Item:
    """Where the records of a flow are.

    `ledger` is the balance as the ledger and the desk say it: no record is read for it, and it proves nothing.
    `counted` is the audit of the command line without `--deep`, for which all records are read and counted. It is null
    when that would take too long, and `why` says so.
    """
    runtime = runtime_of(request)
    database, places = runtime.database, DeskPlaceSource(runtime.database)
    said = ledger_balance(database, flow, places)
    error_topic = runtime.policies.error_topic(flow)
    counted = audit_within(database, runtime.log, flow, within_s, error_topic, places)
    verdict = None if counted.verdict is None else counted.verdict.to_json()
    return {"flow": flow, "ledger": said.to_json(), "counted": verdict, "why": counted.why or None}


@audit_router.get("/trace")
def trace(request: Request, principal: Reader, wanted: Annotated[TraceQuery, Query()]) -> Traced:
    """Where is this record, and how did it get there? Sinks are not asked: only the flow's file knows where they are.

    Nothing says where records of a key are: the end of the topic is read for them.
    """
    runtime = runtime_of(request)
    return traced(runtime, wanted, runtime.desk.masks_for(principal.role))


def marks_text(marks: Iterable[Mark] | None) -> str | None:
    """For the next page; none: this is the last one."""
    return None if marks is None else "_".join(f"{generation}-{batch}" for generation, batch in marks)


def read_marks(text: str, wrong: str) -> list[Mark]:
    """Where a page ended; raises `BadValue` with what is `wrong`."""
    found = [_MARK.fullmatch(part) for part in text.split("_")]
    if not all(found):
        raise BadValue(wrong)
    return [(int(each[1]), int(each[2])) for each in found if each is not None]


def _ask(
    request: Request,
    flow: str,
    kind: StageCommandKind,
    sent: FlowCommandRequest | Reset,
    principal: FlowKeeper,
    maker: Maker,
    arguments: Mapping[str, Any] | None = None,
) -> Response:
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)

    def act() -> list[StageStatus]:
        commands = StageCommands(runtime.database, runtime.event_log)
        return commands.ask(flow, kind, **maker.by(sent.why), stage=sent.stage, arguments=arguments)

    def show(asked: list[StageStatus] | None) -> FlowCommandResult:
        """When the answer was lost, nobody knows how the stages were before."""
        was = None if asked is None else {look.stage.name: look for look in asked}
        now = [
            look for look in stage_statuses(runtime.database, flow, sent.stage) if was is None or look.stage.name in was
        ]
        done = [None if was is None else is_done(kind, was[look.stage.name], look) for look in now]
        items = [{**stage_shown(look, masks), "is_done": each} for look, each in zip(now, done, strict=True)]
        return FlowCommandResult(items=items)

    subject = flow if sent.stage is None else f"{flow}/{sent.stage}"
    return maker.make(f"{kind} flow", subject, act, show)
