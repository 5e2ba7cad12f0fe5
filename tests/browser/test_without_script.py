"""All that a page can do but follow what happens, it can do without JavaScript."""

from __future__ import annotations

import re

from playwright.sync_api import expect
from tests.support.chromium import NARROW, People
from tests.support.console import PASSWORD, make_user
from tests.support.hands import HANDS, act

from towpath.runtime import Runtime


def test_log_in_send_and_filter(people: People, runtime: Runtime) -> None:
    make_user(runtime, "operator", "ann")
    runtime.queue.inbox("greeter")
    page = people.page(None, "/queue", java_script_enabled=False)
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    payload = '{"name": "Ada", "sum": 1.5}'
    act(page, HANDS["mouse"], "Send", inbox="greeter", function="greet", payload=payload, why="nobody else does")
    expect(page.get_by_role("status")).to_have_text("the message is sent")
    expect(page.locator("pre").first).to_contain_text('"sum": 1.5')
    [message] = runtime.queue.browser().page(limit=10)
    assert (message.inbox, message.function) == ("greeter", "greet")
    page.goto("/queue/messages")
    page.get_by_label("Function").fill("something else")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile("function=something"))
    expect(page.get_by_text("No message is like that.")).to_be_visible()
    page.get_by_role("link", name="Clear").click()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_what_needs_a_script_is_not_shown(people: People) -> None:
    page = people.page("viewer", "/queue", java_script_enabled=False, viewport=NARROW)
    page.locator(".me summary").click()
    expect(page.get_by_label("Colours")).to_be_visible()
    expect(page.get_by_label("Times")).to_be_hidden()
    expect(page.locator("#live")).to_be_hidden()
    expect(page.get_by_role("link", name="Events", exact=True)).to_be_visible()  # the menu is not folded for good
