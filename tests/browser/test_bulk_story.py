"""Ten thousand cases at once: counted before, watched while it goes on, and aborted in the middle."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from tests.support.chromium import People
from tests.support.desk_world import World
from tests.support.hands import HANDS, act

from towpath.desk.actions.job_store import JobState
from towpath.runtime import Runtime

MANY = 10_000


@pytest.mark.parametrize("hand", HANDS)
def test_a_replay_of_ten_thousand_is_aborted(people: People, runtime: Runtime, hand: str) -> None:
    use = HANDS[hand]
    world = World(runtime)
    world.cases(MANY)
    page = people.page("operator", "/desk/groups", name="ann")
    use.press(page.locator("tbody a").first)
    use.press(page.get_by_role("link", name="Replay all 10,000…"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("10,000")
    use.fill(page.get_by_label("At most so many a second"), "100")
    use.fill(page.get_by_label("Why"), "the prices are there now")
    with world.hosted():
        use.press(page.get_by_role("button", name="Replay 10,000 cases"))
        done = page.locator(".figures p", has_text="done")
        expect(done).to_have_text(re.compile(r"^[1-9][\d,]* done$"))
        before = done.inner_text()
        expect(done).not_to_have_text(before)  # it goes on, and the page shows it
        act(page, use, "Abort", why="it was the wrong group")
        expect(page.locator(".head .state")).to_have_text("aborted")
        [view] = runtime.desk.jobs.page(limit=1)
        job = world.ended(view)
    assert job.state is JobState.ABORTED
    assert 0 < job.done < MANY
    assert world.states() == {"open": MANY - job.done, "replaying": job.done}
