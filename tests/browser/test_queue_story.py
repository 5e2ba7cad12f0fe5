"""A message is mended and moved while it waits."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests.support.chromium import People, Watched
from tests.support.hands import HANDS, act

from towpath.queue import MessageState
from towpath.runtime import Runtime


def sent(runtime: Runtime) -> str:
    runtime.queue.inbox("greeter")
    return runtime.queue.operator("ann").send("greeter", "greet", {"name": "Ada"}, "a test")


@pytest.mark.parametrize("hand", ["mouse", "keyboard"])
def test_edit_and_move(people: People, runtime: Runtime, hand: str) -> None:
    id = sent(runtime)
    use = HANDS[hand]
    page = people.page("operator", "/queue", name="bob")
    use.press(page.locator("tbody").get_by_role("link", name="greeter"))
    page.wait_for_url("**/queue/messages?inbox=greeter*")
    use.press(page.locator("tbody a").first)
    act(page, use, "Edit", payload='{"name": "Grace"}', why="the name was wrong")
    expect(page.get_by_role("status")).to_have_text("the message is changed")
    expect(page.locator("pre").first).to_contain_text("Grace")
    act(page, use, "Set DEAD", why="nobody wants it")
    expect(page.locator(".head .state")).to_have_text("DEAD")
    message = runtime.queue.browser().message(id)
    assert (message.state, message.payload) == (MessageState.DEAD, {"name": "Grace"})
    with runtime.database.read() as tx:
        told = [(each.who, each.why) for each in runtime.event_log.page(tx, limit=10, subject=id)]
    assert told[:2] == [("bob", "nobody wants it"), ("bob", "the name was wrong")]


def test_what_somebody_else_changed_meanwhile_is_not_overwritten(
    people: People, runtime: Runtime, watched: Watched
) -> None:
    watched.allow("422", "409")
    id = sent(runtime)
    page = people.page("operator", f"/queue/messages/{id}", name="bob")
    page.get_by_text("Edit…").click()
    runtime.queue.operator("ann").edit(id, "sooner", payload={"name": "Eve"})
    form = page.locator("details.act[open]")
    form.get_by_label("Payload").fill('{"name": "Grace"}')
    form.get_by_label("Why").fill("later")
    form.get_by_role("button").click()
    expect(page.get_by_role("alert")).to_contain_text("not as the page showed it any more")
    assert runtime.queue.browser().message(id).payload == {"name": "Eve"}
    expect(page.get_by_text('{"name": "Grace"}')).to_be_visible()  # what was written is not lost


def test_a_viewer_has_no_buttons_and_is_refused_on_the_server(
    people: People, runtime: Runtime, watched: Watched
) -> None:
    watched.allow("403")
    id = sent(runtime)
    page = people.page("viewer", f"/queue/messages/{id}")
    expect(page.locator("main details.act")).to_have_count(0)
    status = page.evaluate(
        """async (path) => {
            const token = document.querySelector("meta[name=form-token]").content;
            const body = new URLSearchParams({ token, state: "DEAD", why: "I try" });
            return (await fetch(path, { method: "POST", body, redirect: "manual" })).status;
        }""",
        f"/queue/messages/{id}/state",
    )
    assert status == 403
    assert runtime.queue.browser().message(id).state is MessageState.NEW


def test_a_form_that_was_put_aside_keeps_what_was_written_and_seen(
    people: People, runtime: Runtime, watched: Watched
) -> None:
    """Else the page would let the older text of one person overwrite the newer of another."""
    watched.allow("422", "409")
    id = sent(runtime)
    page = people.page("operator", f"/queue/messages/{id}", name="bob")
    form = page.locator("details.act", has=page.locator("summary", has_text="Edit…"))
    form.locator("summary").click()
    form.get_by_label("Payload").fill('{"name": "Grace"}')
    page.keyboard.press("Escape")
    runtime.queue.operator("ann").edit(id, "sooner", payload={"name": "Eve"})
    expect(page.locator("main .columns pre").first).to_contain_text("Eve")
    form.locator("summary").click()
    expect(form.get_by_label("Payload")).to_have_value('{"name": "Grace"}')
    form.get_by_label("Why").fill("later")
    form.get_by_role("button").click()
    expect(page.get_by_role("alert")).to_contain_text("not as the page showed it any more")
    assert runtime.queue.browser().message(id).payload == {"name": "Eve"}
