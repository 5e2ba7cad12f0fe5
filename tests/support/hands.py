"""The two ways to use a page: with the mouse, and with the keyboard alone. A story is told once and done with both."""

from __future__ import annotations

from typing import Protocol

from playwright.sync_api import Locator, Page

MOST_TABS = 400


class Hand(Protocol):
    """What somebody does to the parts of a page."""

    def press(self, button: Locator) -> None:
        """A button, a link, or the head of something that opens."""

    def fill(self, field: Locator, text: str) -> None:
        """Write into a field, in the place of what stands there."""

    def choose(self, field: Locator, label: str) -> None:
        """One of a list."""

    def tick(self, box: Locator) -> None:
        """A box that is not ticked."""


class Mouse:
    """Clicks."""

    def press(self, button: Locator) -> None:
        button.click()

    def fill(self, field: Locator, text: str) -> None:
        field.fill(text)

    def choose(self, field: Locator, label: str) -> None:
        field.select_option(label=label)

    def tick(self, box: Locator) -> None:
        box.check()


class Keyboard:
    """Goes from part to part with the tabulator key, and never touches the mouse."""

    def press(self, button: Locator) -> None:
        self._go_to(button).press("Enter")

    def fill(self, field: Locator, text: str) -> None:
        keys = self._go_to(field)
        keys.press("Control+a")
        keys.insert_text(text)

    def choose(self, field: Locator, label: str) -> None:
        self._go_to(field).type(label)

    def tick(self, box: Locator) -> None:
        self._go_to(box).press("Space")

    def _go_to(self, wanted: Locator):
        """Until it has the focus; what the tabulator key does not reach cannot be used."""
        wanted.wait_for(state="visible")
        keys = wanted.page.keyboard
        for _ in range(MOST_TABS):
            if wanted.evaluate("each => each === document.activeElement"):
                return keys
            keys.press("Tab")
        raise AssertionError(f"the keyboard does not reach {wanted}")


HANDS: dict[str, Hand] = {"mouse": Mouse(), "keyboard": Keyboard()}


def act(page: Page, hand: Hand, label: str, **fields: str) -> None:
    """Open the form of a button, fill in its fields by their names, and send it off."""
    form = page.locator("details.act").filter(has=page.locator("summary", has_text=f"{label}…"))
    hand.press(form.locator("summary"))
    for name, text in fields.items():
        hand.fill(form.locator(f"[name={name}]"), text)
    hand.press(form.locator("button:not([type=button])"))
