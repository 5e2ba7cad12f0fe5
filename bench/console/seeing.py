"""From a message that is committed to when a person sees it, in a real browser."""

from __future__ import annotations

import random
import shutil
import time
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

from bench.console.filling import LARGEST
from bench.console.serving import Served
from towpath.web.auth import SESSION

ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
# Notes when each text stands in the list first.
_WATCH = """() => {
    window.seenAt = {};
    const look = () => {
        for (const each of document.querySelectorAll("tbody td")) window.seenAt[each.textContent] ??= Date.now();
    };
    new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""
MOST_WAIT_S = 3.0


def delays_s(served: Served, count: int) -> list[float]:
    """One message after the other, at moments that the page does not know of."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise RuntimeError("Chromium is needed: scripts/bootstrap dev installs it")
    operator = served.runtime.queue.operator("bench")
    chance = random.Random(1)  # noqa: S311 - the same moments every time
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGS)
        context = browser.new_context()
        cookie = {
            "name": SESSION,
            "value": served.secret("ann"),
            "domain": urlsplit(served.address).hostname,
            "path": "/",
        }
        context.add_cookies([cookie])  # type: ignore[list-item]
        page = context.new_page()
        page.goto(f"{served.address}/queue/messages?inbox={LARGEST}")
        page.evaluate(_WATCH)
        for number in range(count):
            page.wait_for_timeout(chance.uniform(0, MOST_WAIT_S) * 1000)
            function = f"seen-{number}"
            operator.send(LARGEST, function, {}, "bench")
            sent = time.time()
            page.wait_for_function("(text) => window.seenAt[text]", arg=function, timeout=60_000)
            found.append(page.evaluate("(text) => window.seenAt[text]", function) / 1000 - sent)
        browser.close()
    return found
