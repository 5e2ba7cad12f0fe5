"""How pages look: colours, times, saved views, a phone."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from playwright.sync_api import Page, expect
from tests.support.chromium import NARROW, People
from tests.support.hands import HANDS, act

from towpath.runtime import Runtime

DARK, LIGHT = "rgb(18, 24, 26)", "rgb(246, 247, 247)"


def background(page: Page) -> str:
    found: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return found


def set_theme(page: Page, theme: str) -> None:
    page.locator(".me summary").click()
    page.get_by_label("Colours").select_option(theme)
    page.get_by_role("button", name="Set").click()
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    page.wait_for_load_state()  # with its style sheet


def test_colours_are_the_systems_until_somebody_chooses(people: People) -> None:
    assert background(people.page("viewer", color_scheme="light")) == LIGHT
    page = people.page("viewer", "/queue/messages?state=NEW", color_scheme="dark")
    assert background(page) == DARK
    set_theme(page, "light")
    assert background(page) == LIGHT
    expect(page).to_have_url(re.compile(r"/queue/messages\?state=NEW$"))
    page.goto("/queue")
    assert background(page) == LIGHT
    set_theme(page, "system")
    assert background(page) == DARK
    set_theme(page, "dark")
    page.emulate_media(color_scheme="light")
    assert background(page) == DARK


def test_times_as_the_reader_wants_them(people: People, runtime: Runtime) -> None:
    runtime.queue.inbox("greeter")
    id = runtime.queue.operator("ann").send("greeter", "greet", {}, "a test")
    sent = runtime.queue.browser().message(id).created_at
    page = people.page("viewer", "/queue/messages", timezone_id="Asia/Tokyo")
    time = page.locator("tbody time").first
    expect(time).to_have_text(re.compile("now|ago"))
    expect(time).to_have_attribute("title", f"{sent.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")

    page.locator(".me summary").click()
    page.get_by_label("Times").select_option("utc")
    expect(time).to_have_text(f"{sent.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")
    page.get_by_label("Times").select_option("local")
    there = datetime.fromtimestamp(sent.timestamp() + 9 * 3600, UTC)
    expect(time).to_have_text(f"{there:%Y-%m-%d %H:%M:%S}")
    page.reload()
    expect(time).to_have_text(f"{there:%Y-%m-%d %H:%M:%S}")
    runtime.queue.operator("ann").send("greeter", "greet", {}, "a test")
    expect(page.locator("tbody time")).to_have_count(2)
    expect(page.locator("tbody time").first).to_have_text(re.compile(r"^\d{4}-"))  # also in what came later


def test_a_view_is_saved_with_its_filters_for_its_owner(people: People, runtime: Runtime) -> None:
    runtime.queue.inbox("greeter")
    page = people.page("viewer", "/queue/messages", name="ann")
    page.get_by_label("Inbox").fill("greeter")
    page.get_by_label("State").select_option("ERR")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile("inbox=greeter"))  # the page before has the same button
    act(page, HANDS["mouse"], "Save view", name="what <b>failed</b>")
    expect(page.get_by_role("status")).to_contain_text("saved")
    page.goto("/queue")
    page.get_by_role("navigation").get_by_role("link", name="what <b>failed</b>").click()
    expect(page.get_by_label("Inbox")).to_have_value("greeter")
    expect(page.get_by_label("State")).to_have_value("ERR")
    other = people.page("viewer", "/queue", name="bob")
    expect(other.get_by_role("link", name="what <b>failed</b>")).to_have_count(0)


def test_the_menu_is_folded_on_a_phone(people: People) -> None:
    page = people.page("viewer", "/queue", viewport=NARROW)
    link = page.get_by_role("link", name="Events", exact=True)
    expect(link).to_be_hidden()
    page.get_by_text("Menu").click()
    expect(link).to_be_visible()
