"""The lists of the console, each with addresses from everywhere in it: with filters, and far down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.console.filling import INBOXES, LARGEST, OWNER
from bench.desk.queries import FLOW
from towpath.web.console.layout.page import GROUPS

PLACES = 20


def addresses(cases: int, messages: int, events: int) -> Mapping[str, Sequence[str]]:
    """By what a row of the table calls them."""
    down = [max(2, messages * part // PLACES) for part in range(PLACES, 0, -1)]
    cases_down = [max(2, cases * part // PLACES) for part in range(PLACES, 0, -1)]
    events_down = [max(2, events * part // PLACES) for part in range(PLACES, 0, -1)]
    inboxes = [f"inbox-{number}" for number in range(INBOXES)]
    queue, desk = "/queue/messages", "/desk/cases"
    special = {
        "messages": [queue, *(f"{queue}?before={at}" for at in down)],
        "messages of an inbox": [f"{queue}?inbox={each}" for each in inboxes],
        "messages of an inbox in a state": [
            f"{queue}?inbox={each}&state={state}" for each in inboxes for state in ("NEW", "ERR", "OK")
        ],
        "failed messages": [f"{queue}?state=ERR", *(f"{queue}?state=ERR&before={at}" for at in down)],
        "waiting messages": [f"{queue}?state=NEW", *(f"{queue}?state=NEW&before={at}" for at in down)],
        "messages of a function": [f"{queue}?function=function-{at}" for at in range(PLACES)],
        "messages of an owner": [f"{queue}?owner={OWNER}", f"{queue}?owner={OWNER}&inbox={LARGEST}"],
        "messages of a function that nobody has": [f"{queue}?function=nothing"],
        "cases": [desk, *(f"{desk}?before={at}" for at in cases_down)],
        "open cases of a flow": [f"{desk}?flow={FLOW}&state=open", f"{desk}?flow={FLOW}"],
        "cases of a group": [f"{desk}?group={at}" for at in range(1, PLACES)],
        "cases by step and code": [f"{desk}?flow={FLOW}&step=step-{at}&code=9" for at in range(PLACES)],
        "cases whose message has a text": [f"{desk}?text=no", f"{desk}?text=nothing-like-that"],
        "groups by state": ["/desk/groups?state=new", "/desk/groups?code=9", "/desk/groups?text=Error7"],
        "one group": [f"/desk/groups/{at}" for at in range(1, PLACES)],
        "one case": [f"{desk}/{at}" for at in cases_down],
        "one message": [f"{queue}/01a00000-0000-7000-8000-{at:012x}" for at in down],
        "events far down": [f"/events?before={at}" for at in events_down],
        "events of a kind": ["/events?kind=message_edited", "/events?kind=flow_moved", "/events?kind=process_died"],
        "events of a person": ["/events?who=ann", "/events?who=nobody"],
        "events of a subject": [f"/events?subject=subject-{at}" for at in range(PLACES)],
        "finding": ["/find?q=1", f"/find?q={FLOW}", "/find?q=nothing-like-that", "/find?q=01a00000-0000-7000"],
    }
    menu = {link.title.lower(): [link.path] for group in GROUPS for link in group.links}
    return {**menu, **special}
