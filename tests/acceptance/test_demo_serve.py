"""`towpath demo --serve`, for real: Spark, supervision, traffic, and a browser that looks at all of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.support.chromium import Chromium, Watched, chromium
from tests.support.commands import TOWPATH, sigint
from tests.support.console import PASSWORD

TIMEOUT_S = 900
PATIENCE_MS = 300_000
LINK = re.compile(r"http://127\.0\.0\.1:\d+/welcome/\S+")

pytestmark = [pytest.mark.part("guides"), pytest.mark.timeout(TIMEOUT_S)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as found:
        yield found


@pytest.fixture
def link(tmp_path: Path) -> Iterator[str]:
    """The demo runs; at its end all that it started is gone."""
    command = [*TOWPATH, "demo", "--serve", "--keep", str(tmp_path / "demo")]
    with sigint():
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sys.stderr, text=True)
    try:
        assert process.stdout is not None
        found = next((each[0] for line in process.stdout if (each := LINK.search(line))), None)
        assert found is not None, "the demo has not come up"
        yield found
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=180)
        assert process.returncode == 0
        assert running_in(tmp_path) == []
    finally:
        process.kill()
        process.communicate()


def running_in(directory: Path) -> list[str]:
    """Processes whose command names the directory."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(directory) in line and "demo --serve" not in line]


def test_somebody_looks_at_the_demo(link: str, browser: Chromium, watched: Watched) -> None:
    with browser.used() as chromium, chromium.new_context() as context:
        context.set_default_timeout(PATIENCE_MS)
        watched.watch(context)
        watched.allow("net::ERR", "Failed to load resource")  # the console is killed as well
        page = context.new_page()
        page.goto(link)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_label("Once more").fill(PASSWORD)
        page.get_by_role("button", name="Set password and log in").click()
        root = "/".join(link.split("/")[:3])
        errors_arrive(page, root)
        killed_and_back(page, root, "crew")
        records_are_loaded(page, root)


def errors_arrive(page: Page, root: str) -> None:
    page.goto(f"{root}/desk/groups")
    expect(page.locator("tbody tr").nth(2)).to_be_visible(timeout=PATIENCE_MS)


def killed_and_back(page: Page, root: str, name: str) -> None:
    page.goto(f"{root}/processes")
    row = page.get_by_role("region", name="What has to run").locator("tr", has_text=name)
    expect(row).to_contain_text("ready", timeout=PATIENCE_MS)
    expect(row.locator("td").nth(5)).to_have_text("1")
    page.goto(f"{root}/processes/{name}")
    text = page.locator("main").inner_text()
    pid = re.search(r"pid\D*(\d+)", text, re.IGNORECASE)
    assert pid is not None, text
    os.kill(int(pid[1]), signal.SIGKILL)
    page.goto(f"{root}/processes")
    expect(row.locator("td").nth(5)).to_have_text("2", timeout=PATIENCE_MS)
    expect(row).to_contain_text("ready", timeout=PATIENCE_MS)


def records_are_loaded(page: Page, root: str) -> None:
    page.goto(f"{root}/flows/shop/audit")
    expect(page.locator("main")).to_contain_text("loaded", timeout=PATIENCE_MS)


@pytest.fixture
def watched() -> Iterator[Watched]:
    found = Watched()
    yield found
    found.check()
