"""Links of the console: none is broken, and they lead to every page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.console import Visitor, make_user
from tests.support.console_world import INBOX, ConsoleWorld, console_runtime
from tests.support.crawling import LOOKS, crawl, route_of
from tests.support.desk_world import HEADERS, SOURCE

from towpath.access.roles import Role
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.log import NewRecord
from towpath.runtime import Runtime
from towpath.web.app import Surface, build_app
from towpath.web.console.layout.page import GROUPS

HIDDEN = "ada@hidden.example"
NO_LINK = {"/complain"}  # for people who are no users


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    home: Path = tmp_path_factory.mktemp("links")
    with console_runtime(home) as runtime:
        for role in Role:
            make_user(runtime, role)
        ConsoleWorld(runtime, home).fill()
        yield runtime


def visitor(runtime: Runtime, role: Role) -> Visitor:
    made = Visitor(build_app(runtime, Surface.CONSOLE))
    made.log_in(str(role))
    return made


@pytest.mark.parametrize("role", Role)
def test_no_link_is_broken(runtime: Runtime, role: Role) -> None:
    """Nor does one lead to where who sees it may not go."""
    broken = {address: status for address, status, _ in crawl(visitor(runtime, role)) if status != 200}
    assert broken == {}


def test_links_lead_to_every_page(runtime: Runtime) -> None:
    reached = {route.path for address, _, _ in crawl(visitor(runtime, Role.ADMIN)) if (route := route_of(address))}
    missing = {route.path for route in LOOKS} - reached - NO_LINK
    assert missing <= {"/login"}


def test_the_menu_leads_to_pages_of_that_name(runtime: Runtime) -> None:
    admin = visitor(runtime, Role.ADMIN)
    for link in (link for group in GROUPS for link in group.links):
        assert f"<title>{link.title}" in admin.text(link.path), link


@pytest.mark.part("matrix")
def test_nobody_finds_what_is_masked(tmp_path: Path) -> None:
    """Not in what a record holds, its key or headers, not in why it failed, nor in a message with the same field."""
    desk = {"directory": str(tmp_path / "desk"), "masked": {"*": ["email", "$key", "$headers.sender"]}}
    with console_runtime(tmp_path, desk=desk) as runtime:
        world = ConsoleWorld(runtime, tmp_path).fill()
        value = json.dumps({"id": 9, "email": HIDDEN}).encode()
        headers = (*HEADERS, ("sender", HIDDEN.encode()))
        failure = RecordFailure(ErrorCode.NOT_VALID, "check", "ValueError", f"nobody is called {HIDDEN}")
        case = world.desk.cases(1, values=[value], headers=headers, failure=failure, key=HIDDEN.encode())[0]
        runtime.log.append(SOURCE, [NewRecord(value, HIDDEN.encode(), headers)])
        runtime.queue.operator("ann").send(INBOX, "greet", {"email": HIDDEN}, "a test")
        pages = [f"/desk/cases/{case.id}", f"/desk/groups/{case.group_id}", f"/topics/{SOURCE}/records?partition=0"]
        for role in Role:
            make_user(runtime, role)
        viewer, admin = visitor(runtime, Role.VIEWER), visitor(runtime, Role.ADMIN)
        for page in pages:
            assert HIDDEN in admin.text(page), page
            assert HIDDEN not in viewer.text(page), page
        shown = [address for address, _, text in crawl(viewer, most_of_one=8) if HIDDEN in text]
    assert shown == []
