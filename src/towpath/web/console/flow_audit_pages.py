"""Whether every record of a flow is in exactly one place: as the ledger says it, and counted while somebody waits."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.desk.places import DeskPlaces
from towpath.flow.audit.bounded import audit_within
from towpath.flow.audit.ledger_balance import ledger_balance
from towpath.flow.place import Place
from towpath.web.asking import Reader, runtime_of
from towpath.web.console.pages import page

router = APIRouter(prefix="/flows", include_in_schema=False)

LONGEST_S = 5.0
MOST_SHOWN = 100

MEANINGS = {
    Place.LOADED: "every output that was to have it has it",
    Place.FILTERED: "a step gave nothing for it",
    Place.AGGREGATED: "it went into a sum with others",
    Place.UNMATCHED: "a join has found no partner for it",
    Place.JOINING: "a join keeps it until its partner comes",
    Place.FAILED: "in the error topic; the desk has not come to it",
    Place.WAITING: "in a lane, to be tried again",
    Place.PARKED: "behind another record of its key",
    Place.OPEN: "on the desk, in front of a person",
    Place.REPLAYING: "sent back into the flow; outcome not known yet",
    Place.RESENT: "sent to the source again, as a new record",
    Place.IGNORED: "dismissed by an approved rule",
    Place.ABANDONED: "dismissed by a person",
    Place.BLOCKED: "a block rule keeps it out",
    Place.DUPLICATE: "its sender had sent it before",
    Place.FORFEITED: "at most once: nobody knows whether it was written",
    Place.IN_FLIGHT: "in the topic, not read yet",
    Place.SKIPPED: "deleted before it was read",
}


@router.get("/{flow}/audit")
def audit(request: Request, flow: str, principal: Reader) -> Response:
    """The ledger's balance at once; with `count`, records are counted for a few seconds at most."""
    runtime = runtime_of(request)
    database, places = runtime.database, DeskPlaces(runtime.database)
    said = ledger_balance(database, flow, places)
    is_counted = bool(request.query_params.get("count"))
    counted = None
    if is_counted:
        error_topic = runtime.policies.error_topic(flow)
        counted = audit_within(database, runtime.log, flow, LONGEST_S, error_topic, places)
    verdict = None if counted is None else counted.verdict
    return page(
        request,
        "audit.html",
        flow=flow,
        ledger=said,
        why=None if counted is None else counted.why,
        verdict=verdict,
        balance=None if verdict is None else verdict.balance,
        places=[place for place in Place if place.is_balanced],
        problems=() if verdict is None else verdict.problems[:MOST_SHOWN],
        meanings=MEANINGS,
        longest_s=LONGEST_S,
    )
