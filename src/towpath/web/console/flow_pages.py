"""Flows: what each stage is doing, how far it is and what it has counted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.clock import to_datetime
from towpath.db.event_log import StoredEvent
from towpath.desk.masking import MASK
from towpath.errors import BadValue
from towpath.events import EventKind
from towpath.flow.batch_counts import counts_of, names_of
from towpath.flow.batch_pages import Mark, batch_page
from towpath.flow.ledger import Ledger
from towpath.flow.look import Look, looks
from towpath.flow.past import MOST_BATCHES, PastBatchStore
from towpath.flow.pilot import PilotState
from towpath.flow.recent import lag_points
from towpath.web.asking import Reader, runtime_of
from towpath.web.console.charts import Span
from towpath.web.console.flow_chart import flow_chart
from towpath.web.console.flow_past import WINDOWS, code_counts, error_chart, lag_chart, meaning_of, rate_chart
from towpath.web.console.flow_standing import (
    is_urgent,
    on_the_desk,
    partitions_of,
    possible,
    totals_of,
    trouble_of,
    urgency,
)
from towpath.web.console.pages import page
from towpath.web.console.pilot_chart import MEANINGS, pilot_chart

router = APIRouter(prefix="/flows", include_in_schema=False)

BATCHES_SHOWN, BATCH_ROWS = 8, 50
MOVES_SHOWN = 12
_MARKS = re.compile(r"\d{1,9}-\d{1,18}(_\d{1,9}-\d{1,18})*", re.ASCII)
_OLDER = "before: write what the link to older ones has"


@router.get("")
def flows(request: Request, principal: Reader) -> Response:
    """Every stage of every flow that has run here."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    found = looks(runtime.database)
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
    found = looks(database, flow)
    look = _chosen(found, request.query_params.get("stage"))
    stage, pilot, now = look.stage, look.stage.pilot, to_datetime(look.now)
    hours = request.query_params.get("hours", "")
    length, width = WINDOWS.get(hours, WINDOWS["1"])
    span = Span(now - length, now)
    ledger = Ledger(database)
    with database.read() as tx:
        totals = ledger.totals(tx, flow).get(stage.name, {})
        gaps = ledger.gaps(tx, flow, stage.name)
        events = runtime.event_log.page(tx, limit=MOVES_SHOWN, subject=f"{flow}/{stage.name}")
        past = PastBatchStore(database).read(tx, flow, stage.name, span.since, width)
    partitions = partitions_of(runtime, look)
    lag = sum(each["lag"] for each in partitions) if partitions is not None else stage.sample.get("lag")
    last = batch_page(database, flow, stage=stage.name, limit=BATCHES_SHOWN)
    batches = last.batches if last is not None else []
    is_masked = bool(masks.of(flow))
    error = pilot.last_error
    return page(
        request,
        "flow.html",
        flow=flow,
        looks=found,
        look=look,
        stage=stage,
        meaning=MEANINGS[pilot.state],
        trouble=trouble_of(look, masks),
        error=None if error is None else replace(error, message=MASK) if is_masked else error,
        error_meaning="" if error is None else meaning_of(error.code),
        error_at=None if error is None else to_datetime(error.at),
        since=to_datetime(pilot.since),
        next_try=None if pilot.next_try is None else to_datetime(pilot.next_try),
        machine=pilot_chart(pilot.state, _came_from(events, pilot.state)),
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
    marks = _read_marks(request.query_params.get("before", ""))
    found = batch_page(database, flow, stage=stage, limit=BATCH_ROWS, marks=marks)
    if found is None:
        raise BadValue(_OLDER)
    rows = [(each, counts_of(each.counts)) for each in found.batches]
    return page(
        request,
        "batches.html",
        flow=flow,
        stages=[look.stage.name for look in looks(database, flow)],
        batches=rows,
        names=names_of(counts for _, counts in rows),
        next=None if found.next is None else "_".join(f"{generation}-{batch}" for generation, batch in found.next),
    )


def _chosen(found: Sequence[Look], name: str | None) -> Look:
    """The stage that is asked for, or the one that needs somebody most."""
    if not name:
        return min(found, key=urgency)
    for look in found:
        if look.stage.name == name:
            return look
    raise BadValue(f"no stage is named {name!r}; there are: {', '.join(look.stage.name for look in found)}")


def _came_from(events: Sequence[StoredEvent], state: PilotState) -> PilotState | None:
    """The state before this one, if that was a move of which a row is kept."""
    last = next((event.data for event in events if event.kind == EventKind.FLOW_MOVED), {})
    known = {str(each): each for each in PilotState}
    return known.get(str(last.get("from"))) if last.get("to") == state else None


def _read_marks(text: str) -> list[Mark] | None:
    if not text:
        return None
    if not _MARKS.fullmatch(text):
        raise BadValue(_OLDER)
    pairs = (each.split("-") for each in text.split("_"))
    return [(int(generation), int(batch)) for generation, batch in pairs]
