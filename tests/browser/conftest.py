"""Tests in a real browser: the system's Chromium walks the pages of a real console, as people do.

A missing Chromium is a failure. Every test also fails on what a page writes to the browser's console, on an error of
its script, and on a request that fails. Nothing sleeps: `expect` waits until a page shows what it should.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.support.chromium import PATIENCE_MS, Chromium, People, Watched, chromium, looking
from tests.support.console_server import ConsoleServer, console_server
from tests.support.console_world import console_runtime

from towpath.runtime import Runtime

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def chromium_of_process() -> Iterator[Chromium]:
    with chromium() as found:
        yield found


@pytest.fixture
def watched() -> Iterator[Watched]:
    """What a test means to go wrong it says to this one."""
    found = Watched()
    yield found
    found.check()


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with console_runtime(tmp_path) as runtime:
        yield runtime


@pytest.fixture
def server(runtime: Runtime) -> Iterator[ConsoleServer]:
    with console_server(runtime) as found:
        yield found


@pytest.fixture
def people(chromium_of_process: Chromium, server: ConsoleServer, watched: Watched) -> Iterator[People]:
    """`people.page("operator", "/queue")`."""
    with looking(chromium_of_process, server, watched) as found:
        yield found
