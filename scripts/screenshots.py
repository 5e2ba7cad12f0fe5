"""Take the pictures of the console: start the demo that is served, wait until there is something to see, and look."""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parent.parent
PLACE = ROOT / "docs" / "assets" / "console"
WIDE, HIGH = 1360, 860
MOST_BYTES = 200_000
PATIENCE_MS, SETTLED_MS = 30_000, 600_000
SETTLED = ("/desk/cases?state=open&text=lemonade", "/desk/cases?state=resolved")
PASSWORD = "a password for pictures"  # noqa: S105 - of a demo that ends with this program
LINK = re.compile(r"http://\S+/welcome/\S+")

Colours = Literal["light", "dark"]


@dataclass(frozen=True)
class Picture:
    """A page, and what has to be on it first."""

    name: str
    path: str
    colours: Colours = "light"
    until: str = "main h1"  # a selector
    act: Callable[[Page], None] = lambda page: None
    width: int = WIDE


def _first(selector: str) -> Callable[[Page], None]:
    """Follow the first link of a list."""

    def follow(page: Page) -> None:
        page.locator(selector).first.click()
        page.wait_for_load_state()

    return follow


def _compare(page: Page) -> None:
    """An edit, before it is saved."""
    page.locator("main tbody tr", has_text="lemonade").first.locator("a").first.click()
    page.get_by_role("link", name="Edit", exact=True).click()
    body = page.get_by_label("Body")
    body.fill(body.input_value().replace("lemonade", "tea"))
    page.get_by_role("button", name="Check and compare").click()


PICTURES = (
    Picture("overview", "/", until="main .card"),
    Picture("flow", "/flows/shop", "dark", until="svg"),
    Picture("group", "/desk/groups?text=lemonade", until="tbody tr", act=_first("tbody a")),
    Picture("edit", "/desk/cases?state=open&text=lemonade", until="tbody tr", act=_compare),
    Picture("actor", "/actors/restock/tea", until="svg"),
    Picture("processes", "/processes", "dark", until="tbody tr:nth-child(5)"),
    Picture("phone", "/", until="main .card", width=390),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", metavar="URL", help="the one-time link of a console that is there")
    parser.add_argument("--to", type=Path, default=PLACE, help="where the pictures go")
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    if given.at:
        take_all(given.at, given.to)
        return
    with tempfile.TemporaryDirectory() as home, _demo(Path(home) / "demo") as link:
        take_all(link, given.to)


@contextmanager
def _demo(directory: Path) -> Iterator[str]:
    """`towpath demo --serve`; gives its link."""
    command = [sys.executable, "-m", "towpath", "demo", "--serve", "--keep", str(directory)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None  # noqa: S101 - for the type checker
        link = next((found[0] for line in process.stdout if (found := LINK.search(line))), None)
        if link is None:
            raise SystemExit("the demo has not started")
        yield link
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def take_all(link: str, place: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("Chromium is needed: scripts/bootstrap dev installs it")
    at = f"{urlsplit(link).scheme}://{urlsplit(link).netloc}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        cookies = _log_in(browser, link)
        _wait(browser, cookies, at)
        for picture in PICTURES:
            _take(browser, cookies, at, picture, place)
        browser.close()


def _log_in(browser: Browser, link: str) -> list[dict[str, object]]:
    context = browser.new_context()
    page = context.new_page()
    page.goto(link)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("Once more").fill(PASSWORD)
    page.get_by_role("button").last.click()
    page.wait_for_load_state()
    found = [dict(each) for each in context.cookies()]
    context.close()
    return found


def _wait(browser: Browser, cookies: list[dict[str, object]], at: str) -> None:
    """Until every part of the demo has done something: a record has waited in a lane and is loaded."""
    context = browser.new_context(base_url=at)
    context.add_cookies(cookies)  # type: ignore[arg-type]
    context.set_default_timeout(SETTLED_MS)
    page = context.new_page()
    for path in SETTLED:
        page.goto(path)
        page.locator("tbody tr").first.wait_for()
        print(f"there is something at {path}")
    context.close()


def _take(browser: Browser, cookies: list[dict[str, object]], at: str, picture: Picture, place: Path) -> None:
    height = HIGH if picture.width == WIDE else 844
    viewport = {"width": picture.width, "height": height}
    context = browser.new_context(base_url=at, viewport=viewport, color_scheme=picture.colours)  # type: ignore[arg-type]
    context.add_cookies(cookies)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(picture.path)
    _wait_for(page, picture.until)
    picture.act(page)
    page.wait_for_load_state()
    file = place / f"{picture.name}.png"
    page.screenshot(path=file, animations="disabled")
    size = file.stat().st_size
    print(f"{file.name}: {size / 1000:.0f} kB")
    if size > MOST_BYTES:
        raise SystemExit(f"{file} has more than {MOST_BYTES:,} bytes: show less of the page")
    context.close()


def _wait_for(page: Page, selector: str) -> None:
    """Pages follow what happens; one that is filtered to nothing is asked again."""
    page.locator(selector).first.wait_for()


if __name__ == "__main__":
    main()
