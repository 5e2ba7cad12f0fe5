"""Everything can be reached with the keyboard, and the keys that pages have of their own."""

from __future__ import annotations

import re

from playwright.sync_api import expect
from tests.support.chromium import People

from towpath.runtime import Runtime
from towpath.web.console.layout.page import GROUPS


def test_keys(people: People, runtime: Runtime) -> None:
    for number in range(3):
        runtime.queue.inbox(f"inbox-{number}")
    page = people.page("viewer", "/queue/messages")
    keys = page.keyboard
    keys.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    keys.type("gq?")  # a letter in a field is a letter
    expect(page.get_by_role("searchbox")).to_have_value("gq?")
    page.locator("h1").click()
    # Two keys belong together for a moment, which ends by a timer: it may be over before a busy machine has typed both.
    page.evaluate("window.setTimeout = () => 0")
    keys.type("gq")
    page.wait_for_url(re.compile("/queue$"))  # until it is loaded: its keys are its script's
    keys.press("j")
    keys.press("j")
    keys.press("k")
    keys.press("j")
    expect(page.locator("tr[data-here]")).to_contain_text("inbox-1")
    keys.press("Enter")
    page.wait_for_url(re.compile("inbox=inbox-1"))
    keys.press("?")
    help = page.get_by_role("dialog")
    expect(help).to_contain_text("this help")
    keys.press("g")
    keys.press("q")  # not while it is open
    keys.press("Escape")
    expect(help).to_be_hidden()
    expect(page).to_have_url(re.compile("inbox=inbox-1"))


def test_a_form_that_was_opened_by_mistake_is_left_with_escape(people: People) -> None:
    page = people.page("operator", "/queue")
    head = page.locator("details.act summary").first
    head.focus()
    page.keyboard.press("Enter")
    expect(page.locator("details.act[open]")).to_have_count(1)
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(page.locator("details.act[open]")).to_have_count(0)
    expect(head).to_be_focused()


def test_the_first_tab_skips_the_menu(people: People) -> None:
    page = people.page("viewer", "/queue")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_every_page_of_the_menu_has_a_key_of_its_own() -> None:
    keys = [link.key for group in GROUPS for link in group.links]
    assert len(keys) == len(set(keys))
    assert all(len(key) == 1 for key in keys)
