"""An actor is started from its form, aborted, and started again from the state in which it failed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect
from tests.support.actors import Counter, Doer, Sleeper
from tests.support.chromium import People, Watched
from tests.support.hands import HANDS, act

from towpath.actors import End
from towpath.runtime import Runtime


@pytest.fixture(autouse=True)
def host(runtime: Runtime) -> Iterator[None]:
    """Actors run in this process."""
    runtime.actors.register(Counter, Sleeper, Doer)
    host = runtime.actors.host()
    host.start()
    try:
        yield
    finally:
        host.stop()


@pytest.mark.parametrize("hand", HANDS)
def test_started_from_its_form_and_aborted(people: People, runtime: Runtime, hand: str) -> None:
    use = HANDS[hand]
    page = people.page("operator", "/workflows", name="ann")
    use.press(page.locator("main").get_by_role("link", name="sleeper", exact=True).first)
    form = page.locator("#start form[method=post]")
    use.fill(form.get_by_label("seconds"), "3600")
    use.fill(form.get_by_label("Why"), "a long night")
    use.press(form.get_by_role("button", name="Start sleeper"))
    state = page.locator(".head .state").first
    expect(state).to_have_text("sleeping")
    act(page, use, "Abort", why="it is morning")
    expect(state).to_have_text("failed")
    assert runtime.actors.instance("sleeper").phase == "failed"


@pytest.mark.parametrize("hand", HANDS)
def test_restarted_from_the_state_in_which_it_failed(people: People, hand: str) -> None:
    use = HANDS[hand]
    tries: list[int] = []

    def once(turn: object) -> End:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("no such <b>page</b>")
        return End("done")

    Doer.actions["once"] = once
    page = people.page("operator", "/workflows/doer")
    form = page.locator("#start form[method=post]")
    use.fill(form.get_by_label("what"), "once")
    use.fill(form.get_by_label("Why"), "a test")
    use.press(form.get_by_role("button", name="Start doer"))
    state = page.locator(".head .state").first
    expect(state).to_have_text("failed")
    expect(page.locator("main")).to_contain_text("no such <b>page</b>")
    act(page, use, "Go on from Do", why="the page is there now")
    expect(state).to_have_text("ended")
    assert len(tries) == 2


def test_a_field_that_is_wrong_is_told_and_nothing_is_lost(people: People, watched: Watched) -> None:
    watched.allow("422")
    page = people.page("operator", "/workflows/counter")
    form = page.locator("#start form[method=post]")
    form.get_by_label("upto").fill("many")
    form.get_by_label("Why").fill("a test")
    form.get_by_role("button", name="Start counter").click()
    expect(page.get_by_role("alert")).to_contain_text("upto")
    expect(form.get_by_label("Why")).to_have_value("a test")
