"""How people come in: by the link of the first start, and with name and password; and how they leave."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.support.chromium import Chromium, People, Watched
from tests.support.commands import next_line, started
from tests.support.console import PASSWORD, make_user
from tests.support.console_world import console_runtime
from tests.support.hands import HANDS

from towpath.runtime import Runtime


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    """Who fails too often waits for long: a machine may take a while from one try to the next."""
    with console_runtime(tmp_path, access={"failure_wait_s": 600.0}) as runtime:
        yield runtime


@pytest.mark.parametrize("hand", HANDS)
def test_name_and_password_lead_to_the_page_that_was_asked_for(people: People, runtime: Runtime, hand: str) -> None:
    make_user(runtime, "operator", "ann")
    use = HANDS[hand]
    page = people.page(None, "/queue/messages?state=NEW")
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    use.fill(page.get_by_label("Name"), "ann")
    use.fill(page.get_by_label("Password"), PASSWORD)
    use.press(page.get_by_role("button", name="Log in"))
    expect(page).to_have_url(re.compile(r"/queue/messages\?state=NEW$"))
    expect(page.get_by_label("State")).to_have_value("NEW")


def test_what_is_wrong_is_said_and_not_which_of_the_two(people: People, runtime: Runtime, watched: Watched) -> None:
    watched.allow("401", "429")
    make_user(runtime, "operator", "ann")
    page = people.page(None, "/login")
    said = []
    for name, password in (("ann", "not the password"), ("nobody", PASSWORD)):
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_label("Password")).to_have_value("")  # the page of this try, and not of the one before
        said.append(page.get_by_role("alert").inner_text())
    assert said[0] == said[1]
    for _ in range(5):
        page.get_by_label("Password").fill("guessed again")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_label("Password")).to_have_value("")
    expect(page.get_by_role("alert")).to_contain_text("try again in")


def test_who_logs_out_is_out_in_every_tab(people: People) -> None:
    page = people.page("viewer", "/queue")
    other = page.context.new_page()
    other.goto("/find")  # does not follow what happens: it would load itself anew, maybe while it is told to
    page.locator(".me summary").click()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/login$"))
    other.reload()
    expect(other).to_have_url(re.compile("/login"))


@pytest.mark.part("gate")
def test_the_link_of_the_first_start_lets_an_admin_in_once(
    chromium_of_process: Chromium, watched: Watched, tmp_path: Path
) -> None:
    watched.allow("410")
    with started("--database", f"sqlite:///{tmp_path}/towpath.db", "console", "--port", "0") as process:
        assert "http://127.0.0.1:" in next_line(process)
        next_line(process)
        link = next_line(process).strip()
        with chromium_of_process.used() as browser, browser.new_context() as context:
            watched.watch(context)
            page = context.new_page()
            page.goto(link)
            expect(page.get_by_role("heading", level=1)).to_have_text("Welcome, admin")
            page.get_by_label("Password").fill(PASSWORD)
            page.get_by_label("Once more").fill(PASSWORD)
            page.get_by_role("button", name="Set password and log in").click()
            expect(page.locator(".me summary")).to_have_text("admin")
            page.goto(link)
            expect(page.get_by_role("heading", level=1)).to_have_text("Gone")
