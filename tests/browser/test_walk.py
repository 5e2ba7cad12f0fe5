"""Every page in the browser: it is there, has one heading, fits on a phone, and axe finds nothing, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from fastapi.routing import APIRoute
from playwright.sync_api import Page
from tests.support.chromium import NARROW, WIDE, People, Watched
from tests.support.console import Visitor, make_user
from tests.support.console_server import ConsoleServer, console_server
from tests.support.console_world import ConsoleWorld, console_runtime
from tests.support.crawling import LOOKS, crawl, route_of

from towpath.web.app import Surface, build_app

OPTIONS = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"]}
MOST_OF_ONE = 2


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleServer]:
    """One for all pages: who looks changes nothing."""
    home: Path = tmp_path_factory.mktemp("walk-" + 12 * "a-long-name")  # no page may become as wide
    with console_runtime(home) as runtime:
        make_user(runtime, "admin")
        ConsoleWorld(runtime, home).fill()
        with console_server(runtime) as server:
            yield server


@pytest.fixture(scope="module")
def addresses(server: ConsoleServer) -> dict[str, list[str]]:
    """By route: addresses that links lead to."""
    visitor = Visitor(build_app(server.runtime, Surface.CONSOLE))
    visitor.log_in("admin")
    found = {"/login": ["/login"], "/complain": ["/complain"], "/find": ["/find", "/find?q=greet"]}
    for address, status, text in crawl(visitor, most_of_one=MOST_OF_ONE):
        route = route_of(address)
        if route is not None and text and status == 200:  # that no link is broken is tested elsewhere
            found.setdefault(route.path, []).append(address)
    return found


@pytest.mark.parametrize("route", LOOKS, ids=lambda route: route.path)
def test_page(route: APIRoute, addresses: dict[str, list[str]], people: People) -> None:
    page = people.page("admin", "/login")
    found = addresses.get(route.path, [])
    assert found, "no link leads there"
    for address in found:
        check(page, address)


def test_pages_of_what_goes_wrong(people: People, watched: Watched) -> None:
    watched.allow("404", "422")
    page = people.page("admin", "/queue")
    for address, status in (("/nothing", 404), ("/queue/messages/none", 404), ("/queue/messages?before=x", 422)):
        check(page, address, status)


def check(page: Page, address: str, status: int = 200) -> None:
    answer = page.goto(address)
    assert answer is not None
    assert answer.status == status, address
    assert page.locator("h1").count() == 1, address
    page.set_viewport_size(NARROW)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= NARROW["width"], f"{address} is {width} wide on a phone: {wide_parts(page)}"
    page.set_viewport_size(WIDE)
    open_all(page)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        report = Axe().run(page, options=OPTIONS)
        assert report.violations_count == 0, f"{address} {scheme}\n{report.generate_report()}"


def open_all(page: Page) -> None:
    """What is folded is looked at as well."""
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")


def wide_parts(page: Page) -> list[str]:
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
            .filter((each) => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest(".table, pre"))
            .slice(0, 5).map((each) => each.outerHTML.slice(0, 120))"""
    )
    return found
