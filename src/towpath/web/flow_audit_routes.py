"""Where the records of a flow are: all of them as a balance, or one of them as a story."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from towpath.desk.places import DeskPlaces
from towpath.desk.tracing import CaseTracer, trace_all
from towpath.flow.audit.bounded import audit_within
from towpath.flow.audit.ledger_balance import ledger_balance
from towpath.web.asking import Reader, runtime_of
from towpath.web.desk_items import Item
from towpath.web.flow_finding import Wanted, find
from towpath.web.flow_items import trace_shown
from towpath.web.flow_models import Traced
from towpath.web.model import PREFIX

router = APIRouter(prefix=PREFIX, tags=["flows"])

LONGEST_S = 20.0

FlowName = Annotated[str, Path(max_length=300)]


@router.get("/flows/{flow}/audit")
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
    database, places = runtime.database, DeskPlaces(runtime.database)
    said = ledger_balance(database, flow, places)
    error_topic = runtime.policies.error_topic(flow)
    counted = audit_within(database, runtime.log, flow, within_s, error_topic, places)
    verdict = None if counted.verdict is None else counted.verdict.to_json()
    return {"flow": flow, "ledger": said.to_json(), "counted": verdict, "why": counted.why or None}


@router.get("/trace")
def trace(request: Request, principal: Reader, wanted: Annotated[Wanted, Query()]) -> Traced:
    """Where is this record, and how did it get there? Sinks are not asked: only the flow's file knows where they are.

    Nothing says where records of a key are: the end of the topic is read for them.
    """
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    meant = find(runtime, wanted, masks)
    flow = meant.tracer.flow
    told = trace_all(meant.tracer, CaseTracer(runtime.database), meant.records)
    items = [trace_shown(runtime.desk, flow, each, cases, masks) for each, cases in told]
    return Traced(flow=flow, items=items, matches=meant.matches, offsets_read=meant.offsets_read)
