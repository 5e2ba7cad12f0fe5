"""The search box of every page: straight to what is meant when that is clear, otherwise all that it may mean."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from towpath.web.asking import Reader, runtime_of
from towpath.web.console.finding import LONGEST, Finder
from towpath.web.console.pages import page

router = APIRouter(include_in_schema=False)

# What the box understands, for who has found nothing.
UNDERSTOOD = (
    ("orders/0/1234", "a record: topic, partition and offset"),
    ("case 17", "a case, or its id or the beginning of that, which is also the correlation id"),
    ("group 3", "a group of cases; a number alone is both"),
    ("0190f3c2-…", "a message, an upload, a bulk job or a data set by its id"),
    ("towpath-aef03ea8c5a3", "a process by its id, or what it does by its name"),
    ("orders:0:0:1234", "a document whose id is made from a record's place"),
    ("Importer:main", "an actor and its instance"),
    ("orders", "a flow, a topic, an inbox, a workflow or a stream by its name"),
)


@router.get("/find")
def find(request: Request, principal: Reader) -> Response:
    """Find something by what is known of it. `all` lists what is found, even when it is one thing."""
    text = request.query_params.get("q", "").strip()[:LONGEST]
    finder = Finder(runtime_of(request), principal, text)
    hits = finder.hits()
    exact = [hit for hit in hits if hit.is_exact]
    if len(exact) == 1 and not request.query_params.get("all"):
        return RedirectResponse(exact[0].href, 303)
    return page(request, "find.html", text=text, hits=hits, further=finder.further(), understood=UNDERSTOOD)
