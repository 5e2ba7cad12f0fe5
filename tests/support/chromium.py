"""The system's Chromium, one for all tests of a process, and what must not happen on its pages."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, ViewportSize, sync_playwright
from tests.support.console_server import ConsoleServer

from towpath.access.roles import Role

ARGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 20_000  # machines have other things to do
WIDE, NARROW = ViewportSize(width=1360, height=900), ViewportSize(width=390, height=844)


class Chromium:
    """Playwright has an event loop in the thread that uses it. It is only there while a test of a browser runs:
    other tests of the same process have loops of their own.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self._loop = asyncio.get_running_loop()

    @contextmanager
    def used(self) -> Iterator[Browser]:
        asyncio._set_running_loop(self._loop)
        try:
            yield self.browser
        finally:
            asyncio._set_running_loop(None)


@contextmanager
def chromium() -> Iterator[Chromium]:
    """A missing one is an error: scripts/bootstrap installs it."""
    path = shutil.which("chromium")
    assert path is not None, "Chromium is needed: scripts/bootstrap dev installs it"
    playwright = sync_playwright().start()
    try:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGS))
        made = Chromium(browser)
        asyncio._set_running_loop(None)
        yield made
        with made.used():
            browser.close()
            playwright.stop()
    finally:
        asyncio._set_running_loop(None)


class Watched:
    """Notes what goes wrong on pages. What a test means to go wrong it says before."""

    def __init__(self) -> None:
        self.troubles: list[str] = []
        self._meant: list[str] = []

    def allow(self, *texts: str) -> None:
        """Troubles in which one of these stands are meant."""
        self._meant += texts

    def watch(self, context: BrowserContext) -> None:
        context.on("console", self._console)
        context.on("weberror", lambda error: self.troubles.append(f"error: {error.error}"))
        context.on("requestfailed", self._failed)

    def check(self) -> None:
        found = [each for each in self.troubles if not any(text in each for text in self._meant)]
        if found:
            raise AssertionError("\n".join(["on the pages:", *found]))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    def _failed(self, request: Request) -> None:
        # Who leaves a page takes back what it asked for.
        if request.failure != "net::ERR_ABORTED":
            self.troubles.append(f"failed: {request.url} {request.failure}")


class People:
    """Whoever looks at the pages of one console: each has a browser context, with cookies of their own."""

    def __init__(self, browser: Browser, server: ConsoleServer, watched: Watched) -> None:
        self._browser = browser
        self._server = server
        self._watched = watched
        self._contexts: list[BrowserContext] = []

    def page(self, role: Role | str | None, path: str = "/queue", name: str | None = None, **options: Any) -> Page:
        """A page of somebody of that role who is logged in; none: of somebody who is not."""
        options = {"viewport": WIDE, "base_url": self._server.address, **options}
        context = self._browser.new_context(**options)
        self._contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        self._watched.watch(context)
        if role is not None:
            context.add_cookies([self._server.cookie(role, name)])  # type: ignore[list-item]
        page = context.new_page()
        page.goto(path)
        return page

    def leave(self) -> None:
        for context in self._contexts:
            context.close()


@contextmanager
def looking(chromium: Chromium, server: ConsoleServer, watched: Watched) -> Iterator[People]:
    with chromium.used() as browser:
        people = People(browser, server, watched)
        try:
            yield people
        finally:
            people.leave()
