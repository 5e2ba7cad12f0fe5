"""The main story of the desk: an error arrives, somebody mends it, and it resolves, all of it seen as it happens."""

from __future__ import annotations

import json
import re
from typing import Literal

import pytest
from playwright.sync_api import Page, expect
from tests.support.chromium import People, Watched
from tests.support.desk_scene import DeskScene
from tests.support.hands import HANDS, Hand

from towpath.desk.cases.model import CaseSelection, CaseState
from towpath.runtime import Runtime

BAD = b'{"id":17,"city":"Ulm","sum":1.10000000000000000001}'


@pytest.fixture
def scene(runtime: Runtime) -> DeskScene:
    return DeskScene(runtime)


def edit(page: Page, hand: Hand, body: str, button: str = "Save and replay", why: str = "it is Neu-Ulm") -> None:
    hand.press(page.get_by_role("link", name="Edit", exact=True))
    hand.fill(page.get_by_label("Body"), body)
    hand.fill(page.get_by_label("Why"), why)
    hand.press(page.get_by_role("button", name=button, exact=True))


@pytest.mark.parametrize("hand", HANDS)
def test_from_the_error_to_its_end(people: People, scene: DeskScene, hand: str) -> None:
    use = HANDS[hand]
    page = people.page("operator", "/desk/groups", name="ann")
    expect(page.get_by_text("Nothing has failed.")).to_be_visible()
    page.evaluate("window.isStillHere = true")

    scene.fail(BAD)
    expect(page.locator("tbody tr")).to_contain_text("no city")
    assert page.evaluate("window.isStillHere")

    use.press(page.locator("tbody").get_by_role("link", name="1", exact=True).first)
    use.press(page.get_by_role("region", name="Cases").get_by_role("link").first)
    expect(page.locator("#body")).to_contain_text("1.10000000000000000001")
    edit(page, use, BAD.decode().replace("Ulm", "Neu-Ulm"))
    state = page.locator(".head .state")
    expect(state).to_have_text("replaying")

    [back] = scene.come_back()
    assert back.value == BAD.replace(b"Ulm", b"Neu-Ulm")
    page.evaluate("window.isStillHere = true")
    scene.load(back)
    expect(state).to_have_text("resolved")
    assert page.evaluate("window.isStillHere")
    expect(page.locator(".timeline")).to_contain_text("it is Neu-Ulm")


def test_what_does_not_fit_the_schema_is_told_before_it_goes_out(
    people: People, scene: DeskScene, watched: Watched
) -> None:
    watched.allow("422")
    scene.fail(BAD)
    page = people.page("operator", "/desk/cases/1")
    edit(page, HANDS["mouse"], '{"id": "seventeen", "city": "Ulm"}')
    expect(page.get_by_role("alert")).to_contain_text("id")
    expect(page.get_by_label("Body")).to_have_value('{"id": "seventeen", "city": "Ulm"}')
    page.get_by_label("Body").fill('{"id": 18, "city": "Ulm"}')
    page.get_by_role("button", name="Check and compare").click()
    expect(page.get_by_role("heading", name="What changes")).to_be_visible()
    assert scene.come_back() == []


@pytest.mark.parametrize("hand", [pytest.param("mouse", marks=pytest.mark.part("gate")), "keyboard"])
def test_two_operators_on_one_case(people: People, scene: DeskScene, watched: Watched, hand: str) -> None:
    """The second is told, sees both, and loses nothing of what they typed."""
    use = HANDS[hand]
    watched.allow("409")
    scene.fail(BAD)
    ann, bob = (people.page("operator", "/desk/cases/1/edit", name=name) for name in ("ann", "bob"))
    edits: list[tuple[Page, str, Literal["status", "alert"]]] = [(ann, "Bonn", "status"), (bob, "Köln", "alert")]
    for page, city, told in edits:
        use.fill(page.get_by_label("Body"), json.dumps({"id": 17, "city": city}, ensure_ascii=False))
        use.fill(page.get_by_label("Why"), f"{city} is right")
        use.press(page.get_by_role("button", name="Save", exact=True))
        expect(page.get_by_role(told)).to_be_visible()  # a press does not wait: bob could be faster than ann
    expect(ann).to_have_url(re.compile(r"/desk/cases/\d+$"))
    expect(bob.get_by_role("alert")).to_contain_text("Somebody was faster")
    expect(bob.get_by_label("Body")).to_have_value('{"id": 17, "city": "Köln"}')
    expect(bob.locator("main")).to_contain_text("Bonn")
    use.press(bob.get_by_role("button", name="Save and replay"))
    expect(ann.locator(".head .state")).to_have_text("replaying")  # who looks at it sees what the other did
    [back] = scene.come_back()
    assert json.loads(back.value or b"")["city"] == "Köln"


def test_what_was_opened_stays_open_while_the_page_changes(people: People, scene: DeskScene) -> None:
    scene.fail(BAD)
    page = people.page("viewer", "/desk/cases/1")
    more = page.locator("details", has_text="by which the flow knows it")
    more.locator("summary").click()
    desk = scene.runtime.desk
    desk.operate.note(desk.cases.find("1").id, "somebody looks at it", who="ann")
    expect(page.locator(".timeline")).to_contain_text("somebody looks at it")
    expect(more).to_have_attribute("open", "")


@pytest.mark.parametrize("hand", HANDS)
def test_selected_and_all_that_match_are_different_buttons(people: People, scene: DeskScene, hand: str) -> None:
    scene.fail(*[b'{"id": %d, "city": "Ulm"}' % number for number in range(5)])
    use = HANDS[hand]
    page = people.page("operator", "/desk/cases")
    boxes = page.locator("tbody input[type=checkbox]")
    use.tick(boxes.nth(0))
    use.tick(boxes.nth(1))
    selected = page.get_by_role("form", name="What to do with the cases that are ticked")
    expect(selected).to_contain_text("2 selected")
    use.fill(selected.get_by_label("Why"), "they are test data")
    use.press(selected.get_by_role("button", name="Abandon"))
    expect(page.get_by_role("status")).to_contain_text("2")
    desk = scene.runtime.desk
    assert desk.cases.count(CaseSelection(states=(CaseState.ABANDONED,))) == 2
    use.press(page.get_by_role("link", name=re.compile("Replay all .* that match")))
    expect(page.get_by_role("heading", level=1)).to_contain_text("3")
