"""A process that is killed is seen to come back; a flow is paused and goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.support.chromium import People
from tests.support.console_world import console_runtime
from tests.support.flow_world import FlowWorld
from tests.support.hands import HANDS, act
from tests.support.supervised import LONG_SILENT_S, WORKER, keeping, sections

from towpath.flow.stage import StageState
from towpath.runtime import Runtime
from towpath.supervision.duties.model import DutyState


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with console_runtime(tmp_path, **sections(tmp_path, silent_s=LONG_SILENT_S)) as runtime:
        yield runtime


@pytest.mark.parametrize("hand", HANDS)
def test_a_process_is_killed_and_comes_back(people: People, runtime: Runtime, hand: str) -> None:
    use = HANDS[hand]
    with keeping(runtime) as kept:
        kept.want("worker", WORKER)
        kept.wait_for("worker", DutyState.READY)
        page = people.page("operator", "/processes")
        row = page.get_by_role("region", name="What has to run").locator("tr", has_text="worker")
        expect(row).to_contain_text("ready")
        expect(row.locator("td").nth(5)).to_have_text("1")
        os.kill(kept.pid("worker"), signal.SIGKILL)
        kept.wait_for("worker", DutyState.READY, 2)  # a process takes longer to start than a page to show it
        expect(row.locator("td").nth(5)).to_have_text("2")
        expect(row).to_contain_text("ready")
        expect(page.get_by_role("heading", name="Last deaths")).to_be_visible()
        use.press(row.get_by_role("link").first)
        act(page, use, "Stop", why="not needed any more")
        kept.wait_for("worker", DutyState.STOPPED)
        expect(page.locator(".head .state")).to_have_text("stopped")


@pytest.mark.parametrize("hand", HANDS)
def test_a_flow_is_paused_and_goes_on(people: People, runtime: Runtime, hand: str) -> None:
    use = HANDS[hand]
    world = FlowWorld(runtime)
    world.send(*[b"{}"] * 30)
    world.batch()
    world.sample()
    page = people.page("operator", "/flows", name="ann")
    use.press(page.locator("tbody").get_by_role("link", name="shop").first)
    act(page, use, "Pause", why="the shop is closed")
    expect(page.locator(".notice")).to_contain_text("ann has asked it to pause")
    wish = world.stage().wish
    assert wish is not None
    world.move(StageState.PAUSED)  # as the stage would do it at its next turn
    expect(page.locator("#flow-now")).to_contain_text("is paused")
    act(page, use, "Resume", why="the shop is open")
    expect(page.get_by_text("ann has asked it to resume")).to_be_visible()
