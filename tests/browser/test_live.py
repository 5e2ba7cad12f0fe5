"""Pages that follow what happens: without a reload, and not while somebody is in the middle of something."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from tests.support.chromium import People, Watched

from towpath.access.sessions import SessionStore
from towpath.runtime import Runtime

MESSAGES = "/queue/messages"


def send(runtime: Runtime, function: str) -> None:
    runtime.queue.inbox("greeter")
    runtime.queue.operator("ann").send("greeter", function, {}, "a test")


def shows(page: Page, function: str) -> None:
    expect(page.locator("tbody").get_by_text(function, exact=True)).to_be_visible()


def shows_not(page: Page, *functions: str) -> None:
    """As it is at this moment."""
    assert not set(functions) & set(page.locator("tbody td").all_inner_texts())


def news_has_come(runtime: Runtime, other: Page, *functions: str) -> None:
    """Another page has shown each of these, one after the other: whoever listens has had time to do so as well."""
    for function in functions:
        send(runtime, function)
        shows(other, function)


def test_a_message_appears_without_reload(people: People, runtime: Runtime) -> None:
    page = people.page("viewer", MESSAGES)
    expect(page.get_by_text("No message is like that.")).to_be_visible()
    page.evaluate("window.isStillHere = true")
    send(runtime, "greet")
    shows(page, "greet")
    assert page.evaluate("window.isStillHere")


def test_a_page_is_held_by_its_button_and_goes_on(people: People, runtime: Runtime) -> None:
    send(runtime, "first")
    page, other = people.page("viewer", MESSAGES), people.page("viewer", MESSAGES)
    button = page.get_by_role("button", name="live")
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    held = page.get_by_role("button", name="held")
    expect(held).to_have_attribute("aria-pressed", "false")
    news_has_come(runtime, other, "second", "third")
    shows_not(page, "second", "third")
    page.reload()
    shows(page, "third")
    news_has_come(runtime, other, "fourth", "fifth")
    shows_not(page, "fourth", "fifth")  # it stays held when it is loaded anew
    held.click()
    shows(page, "fifth")


def test_a_page_waits_while_a_form_is_open(people: People, runtime: Runtime) -> None:
    send(runtime, "first")
    page, other = people.page("viewer", MESSAGES), people.page("viewer", MESSAGES)
    page.get_by_text("Save view…").click()
    page.get_by_label("Name").fill("half wri")
    news_has_come(runtime, other, "second", "third")
    shows_not(page, "second", "third")
    expect(page.get_by_label("Name")).to_have_value("half wri")
    page.keyboard.press("Escape")
    shows(page, "third")


def test_a_page_waits_while_the_help_is_open(people: People, runtime: Runtime) -> None:
    send(runtime, "first")
    page, other = people.page("viewer", MESSAGES), people.page("viewer", MESSAGES)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    news_has_come(runtime, other, "second", "third")
    shows_not(page, "second", "third")
    page.keyboard.press("Escape")
    shows(page, "third")


def test_the_page_of_who_was_logged_out_goes_to_the_log_in(people: People, runtime: Runtime, watched: Watched) -> None:
    watched.allow("text/event-stream")  # which the log-in is not
    page = people.page("viewer", MESSAGES)
    with runtime.database.transaction() as tx:
        SessionStore(runtime.database).end_all(tx, "viewer")
    send(runtime, "secret")
    expect(page).to_have_url(re.compile("/login"))
    expect(page.get_by_text("secret")).to_have_count(0)


def test_the_row_that_is_marked_stays_marked(people: People, runtime: Runtime) -> None:
    """Whoever goes through a list with the keyboard keeps their place when something new comes above it."""
    for number in range(3):
        send(runtime, f"number-{number}")
    page = people.page("viewer", MESSAGES)
    page.keyboard.press("j")
    page.keyboard.press("j")
    marked = page.locator("tr[data-here]")
    expect(marked).to_contain_text("number-1")
    send(runtime, "newest")
    shows(page, "newest")
    expect(marked).to_contain_text("number-1")
    expect(marked.locator("a")).to_be_focused()
    page.keyboard.press("k")
    expect(marked).to_contain_text("number-2")
