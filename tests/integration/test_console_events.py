"""The page of events: what happened, found by kind, subject, person and time."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from urllib.parse import unquote

import pytest
from tests.support.console import HOSTILE, MakeVisitor, Visitor, has_run
from tests.support.sweep import sweep

from towpath.core.clock import to_datetime
from towpath.core.events import Event, EventKind
from towpath.runtime import Runtime
from towpath.web.console.layout.event_links import page_of


def record(runtime: Runtime, *events: Event) -> None:
    with runtime.database.transaction() as tx:
        for event in events:
            runtime.event_log.record(tx, event)


def subjects(page: str) -> list[str]:
    """What the events of a page are about."""
    return re.findall(r'<td class="mono about nowrap">(?:<a href="[^"]*">)?([^<]*)', page)


@pytest.fixture
def visitor(make_visitor: MakeVisitor) -> Visitor:
    return make_visitor("viewer")


def test_events_are_found_by_kind_subject_person_and_time(visitor: Visitor, runtime: Runtime) -> None:
    record(
        runtime,
        Event(EventKind.DUTY_READY, "orders", data={"launch": 3, "took_s": 0.25}),
        Event(EventKind.DUTY_CHANGED_BY_HAND, "orders", "ann", "it hung", {"what": "restart"}),
        Event(EventKind.DUTY_CHANGED_BY_HAND, "parcels", "bob", "x", {"what": "stop"}),
    )
    runtime.database.shift_clock(7200)
    record(runtime, Event(EventKind.DUTY_DIED, "parcels", data={"how": "signal"}))
    page = visitor.text("/events")
    assert subjects(page)[:4] == ["parcels", "parcels", "orders", "orders"]
    assert "it hung" in page
    assert "launch=3 took_s=0.25" in page
    assert '<a href="/processes/orders">orders</a>' in page
    assert subjects(visitor.text("/events?kind=duty_changed_by_hand")) == ["parcels", "orders"]
    assert subjects(visitor.text("/events?subject=orders")) == ["orders", "orders"]
    assert subjects(visitor.text("/events?subject=orders&kind=duty_ready")) == ["orders"]
    assert subjects(visitor.text("/events?who=ann")) == ["orders"]
    assert subjects(visitor.text("/events?since=1h&kind=duty_died")) == ["parcels"]
    assert subjects(visitor.text("/events?until=1h&subject=parcels")) == ["parcels"]
    hour_ago = to_datetime(runtime.database.now()) - timedelta(hours=1)
    exact = hour_ago.strftime("%Y-%m-%dT%H:%M")
    assert subjects(visitor.text(f"/events?since={exact}&kind=duty_ready")) == []
    assert subjects(visitor.text(f"/events?until={exact}&kind=duty_ready")) == ["orders"]
    assert subjects(visitor.text("/events?kind=duty_failed")) == []


def test_pages_go_on_to_the_last_event(visitor: Visitor, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.web.console.queue.EVENT_ROWS", 3)
    record(runtime, *(Event(EventKind.DUTY_READY, f"duty-{number}") for number in range(8)))
    found, path = [], "/events?kind=duty_ready"
    while path:
        page = visitor.text(path)
        found += subjects(page)
        older = re.search(r'<a href="([^"]+)" rel="next">', page)
        path = older[1].replace("&amp;", "&") if older else ""
    assert found == [f"duty-{number}" for number in reversed(range(8))]


@sweep("query", ["since=x", "until=2026-13-01", "before=x", "before=" + "9" * 5000, "since=99999999d"])
def test_what_is_no_time_or_number_is_said(visitor: Visitor, query: str) -> None:
    assert visitor.get(f"/events?{query}").status_code == 422


def test_events_are_harmless(visitor: Visitor, runtime: Runtime) -> None:
    for text in HOSTILE:
        record(runtime, Event(EventKind.DUTY_DIED, text, text, text, {text: text, "nested": [{text: text}]}))
    page = visitor.text("/events?kind=duty_died")
    assert not has_run(page)
    assert "{{7*7}}" in page
    for path in re.findall(r'href="(/processes/[^"]+)"', page):
        assert visitor.get(path).status_code == 404  # nothing has to run under that name
    assert unquote(re.findall(r'href="/processes/([^"]+)"', page)[-1]) == HOSTILE[0]


def test_every_kind_of_event_leads_somewhere_or_nowhere_on_purpose() -> None:
    without = {kind for kind in EventKind if page_of(kind, "x") is None}
    assert without == {
        EventKind.MESSAGES_CLEANED,
        EventKind.INSTANCES_CLEANED,
        EventKind.NOTIFICATION_SENT,
        EventKind.NOTIFICATION_DELAYED,
        EventKind.NOTIFICATION_FAILED,
        EventKind.LOG_IN_REFUSED,
        EventKind.RECORDS_NOT_SENT,
        EventKind.CASES_TAKEN,
        EventKind.CASES_RESOLVED,
        EventKind.CASES_FORGOTTEN,
        EventKind.ERRORS_MISSED,
        EventKind.CORRECTIONS_LEARNED,
        EventKind.PACKETS_REFUSED,
        EventKind.PEER_ROLE_CHANGED,
        EventKind.UPLOADS_FORGOTTEN,
        EventKind.BATCH_COMMITTED,
        EventKind.CHUNK_TAKEN,
        EventKind.SCHEMA_UPGRADED,
        EventKind.SERVICE_FAILED,
        EventKind.SERVICE_RECOVERED,
    }
    assert page_of(EventKind.ACTOR_FAILED, "crawl:a/b") == "/actors/crawl/a%2Fb"
    assert page_of(EventKind.PROCESS_SPAWNED, "crawl:x") == "/actors/crawl/x"
    assert page_of(EventKind.FLOW_GAP_FOUND, "shop/main") == "/flows/shop"


def test_reasons_and_details_may_be_masked(make_runtime: Callable[..., Runtime], make_visitor: MakeVisitor) -> None:
    runtime = make_runtime(desk={"masked": {"*": ["email"]}, "sees_masked": "operator"})
    record(runtime, Event(EventKind.DUTY_DIED, "orders", "ann", "of ann@example.org", {"said": "of bob@example.org"}))
    for role, is_shown in (("viewer", False), ("operator", True)):
        page = make_visitor(role, runtime).text("/events?subject=orders")
        assert subjects(page) == ["orders"]
        assert ("ann@example.org" in page, "bob@example.org" in page) == (is_shown, is_shown)
