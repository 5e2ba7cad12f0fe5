"""Events over HTTP: what the command line shows, by kind, subject, who and since when, page by page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.cli import CommandLine
from tests.support.http import API, Client, MakeClient, error_of
from tests.support.sweep import sweep
from tests.support.tables import by_hand, rows

from towpath.core.events import Event, EventKind
from towpath.db.paging import STRETCH
from towpath.runtime import Runtime

START = datetime(2026, 3, 1, tzinfo=UTC)
KINDS = (EventKind.MESSAGE_EDITED, EventKind.MESSAGE_FLAGGED, EventKind.CLAIM_FREED)


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime], variables: dict[str, str]) -> Runtime:
    """Commands have the same database."""
    return make_runtime()


@pytest.fixture
def viewer(make_client: MakeClient) -> Client:
    return make_client("viewer")


@pytest.fixture
def thirty(runtime: Runtime) -> list[dict[str, Any]]:
    """Thirty events, ten minutes apart, the newest first, as their rows are."""
    with runtime.database.transaction() as tx:
        for n in range(30):
            event = Event(KINDS[n % 3], f"subject-{n % 4}", ("ann", "bob")[n % 2], f"why {n}", {"n": n, "x": 0.1})
            runtime.event_log.record(tx, event)
    first = rows(runtime.database, "event")[0]["seq"]
    by_hand(
        runtime.database,
        "update event set at = :start + (seq - :first) * 600000000",
        start=round(START.timestamp() * 1e6),
        first=first,
    )
    return rows(runtime.database, "event")[::-1]


def walked(client: Client, limit: int, **given: str) -> list[int]:
    found: list[int] = []
    before: dict[str, str] = {}
    while True:
        answer = client.get(f"{API}/events", params={**given, "limit": str(limit), **before})
        assert answer.status_code == 200, answer.text
        found += [item["seq"] for item in answer.json()["items"]]
        if answer.json()["next"] is None:
            return found
        before = {"before": str(answer.json()["next"])}


def test_events_are_what_the_command_line_shows(
    make_client: MakeClient, command: CommandLine, thirty: list[dict[str, Any]]
) -> None:
    client = make_client("viewer")
    made = len(client.get(f"{API}/events?limit=1000").json()["items"]) - len(thirty)
    assert made > 0, "the user and the key have left events, too"
    for words, query in (
        (("--limit", 7), "limit=7"),
        (("--limit", 50), "limit=50"),
        (("--kind", "message_edited"), "kind=message_edited&limit=50"),
        (("--subject", "subject-3"), "subject=subject-3&limit=50"),
        (("--subject", "subject-3", "--kind", "claim_freed"), "subject=subject-3&kind=claim_freed&limit=50"),
    ):
        assert client.get(f"{API}/events?{query}").json() == command.ok("event", "list", *words, "--json").json


def test_filters_page_by_page(make_client: MakeClient, thirty: list[dict[str, Any]]) -> None:
    client = make_client("viewer")
    middle = START + timedelta(minutes=10 * 14)
    for kind in (None, "message_flagged"):
        for subject in (None, "subject-1"):
            for who in ("ann", "nobody"):
                for since in (START, middle, START + timedelta(minutes=10 * 29, microseconds=1)):
                    given = {"kind": kind, "subject": subject, "who": who, "since": since.isoformat()}
                    expected = [
                        row["seq"]
                        for n, row in enumerate(reversed(thirty))
                        if kind in (None, row["kind"])
                        and subject in (None, row["subject"])
                        and who == row["who"]
                        and START + timedelta(minutes=10 * n) >= since
                    ][::-1]
                    asked = {name: value for name, value in given.items() if value is not None}
                    for limit in (1, 4, 100):
                        assert walked(client, limit, **asked) == expected, given


def test_times_alone(make_client: MakeClient, thirty: list[dict[str, Any]]) -> None:
    client = make_client("viewer")
    for low, high in ((0, 29), (0, 0), (3, 17), (29, 29), (17, 3)):
        since, until = ((START + timedelta(minutes=10 * n)).isoformat() for n in (low, high))
        expected = [row["seq"] for row in thirty[::-1][low : high + 1][::-1]]
        assert walked(client, 5, since=since, until=until) == expected
        assert walked(client, 5, since=since, until=until, who="nobody") == []
    for n in (0, 1, 15, 29):
        found = walked(client, 5, since=(START + timedelta(minutes=10 * n)).isoformat())
        assert found[-(30 - n) :] == [row["seq"] for row in thirty[: 30 - n]]
    assert walked(client, 5, since="9999-12-31T00:00:00Z") == []
    assert walked(client, 1000, since="0001-01-01T00:00:00Z") == walked(client, 1000)


def test_somebody_rare_among_many(make_client: MakeClient, runtime: Runtime) -> None:
    """No index knows who: pages may come up empty, and still lead to the first event of all."""
    client = make_client("viewer")
    with runtime.database.transaction() as tx:
        runtime.event_log.record(tx, Event(EventKind.MESSAGE_EDITED, "x", "zoe", "why"))
    columns = ("at", "kind", "subject", "who")
    with runtime.database.transaction() as tx:
        tx.insert_many("event", columns, ((1, "claim_freed", "y", "bob") for _ in range(2 * STRETCH)))
    with runtime.database.read() as tx:
        page = runtime.event_log.search(tx, limit=5, who="zoe", look_s=0.0)
    assert (page.items, page.next) == ([], rows(runtime.database, "event")[-1]["seq"] + 1 - STRETCH)
    assert len(walked(client, 5, who="zoe")) == 1


@sweep(
    "query",
    ["kind=frob", "kind=", "subject=", "since=2026-01-01", "limit=0", "limit=1001", f"before={2**63}", "frob=1"],
)
def test_looks_that_are_refused(viewer: Client, query: str) -> None:
    answer = viewer.get(f"{API}/events?{query}")
    assert (answer.status_code, error_of(answer)["code"]) == (422, "not_valid")


def test_who_may_not_look(make_client: MakeClient) -> None:
    assert make_client(None).get(f"{API}/events").status_code == 401
    answer = make_client("operator", ["queue:write"]).get(f"{API}/events")
    assert (answer.status_code, error_of(answer)["code"]) == (403, "not_allowed")
