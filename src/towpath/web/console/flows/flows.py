"""Flows: what each stage is doing, what troubles it, how far it is, and what has become of what it read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.core.clock import to_datetime
from towpath.core.events import EventKind
from towpath.db.event_log import StoredEvent
from towpath.desk.masks import MASK, Masks
from towpath.desk.record_queries import DeskMetrics
from towpath.errors import BadValue, LogError, UnknownTopic
from towpath.flow.delivery.ledger import Ledger
from towpath.flow.delivery.places import counts_of, names_of
from towpath.flow.failures import MEANINGS
from towpath.flow.stage import StageState
from towpath.flow.stage.history import (
    LATEST,
    MOST_BATCHES,
    BatchHistoryStore,
    ResetPreview,
    batch_page,
    lag_points,
    reset_ahead,
)
from towpath.flow.stage.states import POSSIBLE, StageCommandKind
from towpath.flow.stage.status import StageStatus, stage_statuses
from towpath.web.api.flows import marks_text, read_marks
from towpath.web.auth import Reader, runtime_of
from towpath.web.console.flows.charts import (
    STATE_MEANINGS,
    WINDOWS,
    code_counts,
    error_chart,
    flow_chart,
    lag_chart,
    machine_chart,
    meaning_of,
    rate_chart,
)
from towpath.web.console.layout.charts import TimeSpan
from towpath.web.console.layout.page import page

if TYPE_CHECKING:
    from towpath.runtime import Runtime


router = APIRouter(prefix="/flows", include_in_schema=False)

BATCHES_SHOWN, BATCH_ROWS = 8, 50
MOVES_SHOWN = 12
_OLDER = "before: write what the link to older ones has"

# What comes first for a person, when there are several.
_URGENT = (StageState.HALTED, StageState.HELD, StageState.RETRY, StageState.RESET, StageState.PAUSED)
_LEFT = len(_URGENT) - 1  # nobody runs it: less than what has halted, more than what was paused


@router.get("")
def flows(request: Request, principal: Reader) -> Response:
    """Every stage of every flow that has run here."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    found = stage_statuses(runtime.database)
    urgent = sorted(filter(is_urgent, found), key=urgency)
    return page(
        request,
        "flows.html",
        looks=found,
        totals=totals_of(runtime, found),
        desk=on_the_desk(runtime),
        urgent=[(look, trouble_of(look, masks)) for look in urgent],
    )


@router.get("/{flow}")
def flow(request: Request, flow: str, principal: Reader) -> Response:
    """One stage of a flow at a time: its graph, its state machine, its last hours, its partitions and batches."""
    runtime = runtime_of(request)
    database, masks = runtime.database, runtime.desk.masks_for(principal.role)
    found = stage_statuses(database, flow)
    look = _chosen(found, request.query_params.get("stage"))
    stage, machine, now = look.stage, look.stage.machine, to_datetime(look.now)
    hours = request.query_params.get("hours", "")
    length, width = WINDOWS.get(hours, WINDOWS["1"])
    span = TimeSpan(now - length, now)
    ledger = Ledger(database)
    with database.read() as tx:
        totals = ledger.totals(tx, flow).get(stage.name, {})
        gaps = ledger.gaps(tx, flow, stage.name)
        events = runtime.event_log.page(tx, limit=MOVES_SHOWN, subject=f"{flow}/{stage.name}")
        past = BatchHistoryStore(database).read(tx, flow, stage.name, span.since, width)
    partitions = partitions_of(runtime, look)
    lag = sum(each["lag"] for each in partitions) if partitions is not None else stage.sample.get("lag")
    last = batch_page(database, flow, stage=stage.name, limit=BATCHES_SHOWN)
    batches = last.batches if last is not None else []
    is_masked = bool(masks.of(flow))
    error = machine.last_error
    return page(
        request,
        "flow.html",
        flow=flow,
        looks=found,
        look=look,
        stage=stage,
        meaning=STATE_MEANINGS[machine.state],
        trouble=trouble_of(look, masks),
        error=None if error is None else replace(error, message=MASK) if is_masked else error,
        error_meaning="" if error is None else meaning_of(error.code),
        error_at=None if error is None else to_datetime(error.at),
        since=to_datetime(machine.since),
        next_try=None if machine.next_try is None else to_datetime(machine.next_try),
        machine_drawing=machine_chart(machine.state, _came_from(events, machine.state)),
        graph=flow_chart(f"{flow}/{stage.name}", stage.topology, totals),
        events=[replace(each, why=MASK) if is_masked and each.why else each for each in events],
        counts=counts_of(totals),
        gaps=gaps,
        rates=rate_chart(past, span),
        lags=lag_chart(lag_points(stage.sample), now, lag),
        errors=error_chart(past, span),
        codes=code_counts(past, totals),
        known_since=past.since if past.since > span.since else None,
        most_batches=MOST_BATCHES,
        windows=list(WINDOWS),
        hours=hours if hours in WINDOWS else "1",
        partitions=partitions if partitions is not None else stage.sample.get("partitions", []),
        lag=lag,
        is_old=partitions is None,
        batches=[(each, counts_of(each.counts)) for each in batches],
        names=names_of(counts_of(each.counts) for each in batches),
        possible=possible(found),
    )


@router.get("/{flow}/batches")
def batches(request: Request, flow: str, principal: Reader) -> Response:
    """The ledger, the newest first."""
    database = runtime_of(request).database
    stage = request.query_params.get("stage") or None
    before = request.query_params.get("before", "")
    marks = read_marks(before, _OLDER) if before else None
    found = batch_page(database, flow, stage=stage, limit=BATCH_ROWS, marks=marks)
    if found is None:
        raise BadValue(_OLDER)
    rows = [(each, counts_of(each.counts)) for each in found.batches]
    return page(
        request,
        "batches.html",
        flow=flow,
        stages=[look.stage.name for look in stage_statuses(database, flow)],
        batches=rows,
        names=names_of(counts for _, counts in rows),
        next=marks_text(found.next),
    )


def urgency(look: StageStatus) -> int:
    """The lowest comes first."""
    state = look.stage.machine.state
    if state in _URGENT[:_LEFT]:
        return _URGENT.index(state)
    return _LEFT if is_left(look) else _LEFT + 1


def is_left(look: StageStatus) -> bool:
    """Whether nobody runs what no person has stopped."""
    return not look.is_run and look.stage.machine.state not in (StageState.STOPPED, StageState.PAUSED)


def is_urgent(look: StageStatus) -> bool:
    """Whether a person should look at it: it waits for one, it cannot do its work, or nobody runs it."""
    return look.stage.machine.state in (StageState.HALTED, StageState.HELD, StageState.RETRY) or is_left(look)


def trouble_of(look: StageStatus, masks: Masks) -> str:
    """Why it waits or rests. What was said of an error quotes records, which not everybody may see."""
    machine, is_masked = look.stage.machine, bool(masks.of(look.stage.flow))
    if machine.reason:
        return MASK if is_masked and machine.state is StageState.HALTED else machine.reason
    if machine.is_waiting and machine.last_error is not None:
        error = machine.last_error
        at = f" at {error.step}" if error.step else ""
        said = MASK if is_masked else error.message
        return f"code {int(error.code)}{at}, {MEANINGS[error.code]}: {said}"
    return f"nobody runs it: {look.stage.owner} is {look.runner}" if is_left(look) else ""


def possible(found: Sequence[StageStatus]) -> list[StageCommandKind]:
    """What can be asked of one stage at least."""
    return [kind for kind in StageCommandKind if any(_can(look, kind) for look in found)]


def totals_of(runtime: Runtime, found: Sequence[StageStatus]) -> dict[tuple[str, str], dict[str, int]]:
    """What each stage has counted, by flow and stage."""
    ledger = Ledger(runtime.database)
    with runtime.database.read() as tx:
        flows = {flow: ledger.totals(tx, flow) for flow in {look.stage.flow for look in found}}
    return {(flow, stage): counts_of(totals) for flow, of in flows.items() for stage, totals in of.items()}


def on_the_desk(runtime: Runtime) -> dict[tuple[str, str], int]:
    """Cases by flow and state."""
    return {(flow, state): count for flow, state, count in DeskMetrics(runtime.database).cases()}


def partitions_of(runtime: Runtime, look: StageStatus) -> list[dict[str, Any]] | None:
    """Where it is in each partition. Of a stage that nobody runs the log is asked; None: that cannot be done."""
    if look.is_run:
        return [each for each in look.stage.sample.get("partitions", []) if _is_shown(look, each["topic"], each["end"])]
    try:
        ahead = reset_ahead(runtime.database, runtime.log, look.stage.flow, LATEST, look.stage.name)
    except (LogError, UnknownTopic):
        return None
    return [_partition(each) for each in ahead if _is_shown(look, each.topic, each.end)]


def _can(look: StageStatus, kind: StageCommandKind) -> bool:
    return look.stage.machine.state in POSSIBLE[kind] and (look.is_run or kind is not StageCommandKind.STOP)


def _partition(ahead: ResetPreview) -> dict[str, Any]:
    position = ahead.start if ahead.position is None else ahead.position
    lag = max(0, ahead.end - max(position, ahead.start))
    place = {"topic": ahead.topic, "partition": ahead.partition, "position": position, "end": ahead.end}
    return {**place, "lag": lag, "rate": 0.0}


def _is_shown(look: StageStatus, topic: str, end: int) -> bool:
    """Those of the re-entry topic only when something has come back."""
    return bool(end) or topic in look.stage.topology.get("topics", ())


def _chosen(found: Sequence[StageStatus], name: str | None) -> StageStatus:
    """The stage that is asked for, or the one that needs somebody most."""
    if not name:
        return min(found, key=urgency)
    for look in found:
        if look.stage.name == name:
            return look
    raise BadValue(f"no stage is named {name!r}; there are: {', '.join(look.stage.name for look in found)}")


def _came_from(events: Sequence[StoredEvent], state: StageState) -> StageState | None:
    """The state before this one, if that was a move of which a row is kept."""
    last = next((event.data for event in events if event.kind == EventKind.FLOW_MOVED), {})
    known = {str(each): each for each in StageState}
    return known.get(str(last.get("from"))) if last.get("to") == state else None
