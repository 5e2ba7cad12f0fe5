"""What is known of an actor's class, and what is refused, with which words."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union

import pytest
from tests.support.sweep import sweep

from towpath.actors import Actor, End, Failed, Resume, Sleep, Turn, Wait, state
from towpath.actors.actor import resume_of
from towpath.actors.definition import define
from towpath.errors import BadActor


@state
class Start:
    """Begins."""


@state(resume=Resume.RETRY)
class Fetch:
    """Fetches a page.

    And more, which is for programmers.
    """

    url: str
    tries: int = 0


@state(resume=Resume.RESTART)
class Rest:
    pass


class Crawler(Actor):
    """Crawls a site,
    page by page.

    More about it, which is for programmers.
    """

    def transition(self, state: Start | Fetch | Rest | End | Failed, turn: Turn) -> Any:
        return End()


def test_what_is_known_of_a_class() -> None:
    definition = define(Crawler)
    assert (definition.name, definition.about) == ("crawler", "Crawls a site, page by page.")
    assert list(definition.states) == ["Start", "Fetch", "Rest", "End", "Failed"]
    assert definition.first.name == "Start"
    assert {name: kind.resume for name, kind in definition.states.items()} == {
        "Start": Resume.FAIL,
        "Fetch": Resume.RETRY,
        "Rest": Resume.RESTART,
        "End": Resume.RETRY,
        "Failed": Resume.RETRY,
    }
    assert [name for name, kind in definition.states.items() if kind.is_terminal] == ["End", "Failed"]
    assert define(Crawler) is definition


def made(transition: Callable[..., Any], doc: str | None = "Does it.", **attributes: Any) -> type[Actor]:
    """A class with this transition."""
    return type("Odd", (Actor,), {"transition": transition, "__doc__": doc, **attributes})


def of_state(cls: Any) -> type[Actor]:
    """An actor with one state."""

    def transition(self: Actor, state: Any, turn: Turn) -> Any:
        return End()

    transition.__annotations__["state"] = cls
    return made(transition)


def fine(self: Actor, state: Start, turn: Turn) -> Any:
    return End()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("WebCrawler", "web-crawler"),
        ("HTTPFetcher", "httpfetcher"),
        ("Crawler2Go", "crawler2-go"),
        ("crawl_all", "crawl_all"),
    ],
)
def test_names_from_classes(name: str, found: str) -> None:
    assert define(type(name, (Crawler,), {"__doc__": "Does it."})).name == found


def test_a_union_of_the_old_kind_and_one_state_alone() -> None:
    assert list(define(of_state(Union[Start, Fetch])).states) == ["Start", "Fetch", "End", "Failed"]  # noqa: UP007
    assert list(define(of_state(Start)).states) == ["Start", "End", "Failed"]


def test_states_in_the_class_itself() -> None:
    class Nest(Actor):
        """Has its states inside."""

        @state
        class Inside:
            n: int

        def transition(self, state: Inside | End, turn: Turn) -> Any:
            return End()

    assert define(Nest).first.read({"n": 1}) == Nest.Inside(1)


# What is refused


@dataclass
class Loose:
    n: int = 0


@dataclass(frozen=True)
class Plain:
    n: int = 0


@state
class Locked:
    lock: threading.Lock


@state
class Unknown:
    later: Nowhere  # type: ignore[name-defined]  # noqa: F821


Twin = type("Start", (), {})


class Mute(Actor):
    def transition(self, state: Start, turn: Turn) -> Any:
        return End()


class Needy(Actor):
    """Needs something."""

    def __init__(self, site: str) -> None:
        self.site = site

    def transition(self, state: Start, turn: Turn) -> Any:
        return End()


class Half(Actor):
    """Has no code."""


def bare(self: Actor, state, turn):
    return End()


def short(self: Actor, state: Start) -> Any:
    return End()


def long(self: Actor, state: Start, turn: Turn, more: int) -> Any:
    return End()


def stray(self: Actor, state: Nowhere, turn: Turn) -> Any:  # type: ignore[name-defined]  # noqa: F821
    return End()


TELL = "say which states there are, the first one first, as in `def transition(self, state: Start | Fetch, turn: Turn)`"


@sweep(
    ("cls", "said"),
    [
        (Mute, "Mute has no docstring; people will see its first sentence"),
        (made(fine, doc=None), "Odd has no docstring; people will see its first sentence"),
        (made(fine, doc="  \n "), "Odd has no docstring; people will see its first sentence"),
        (made(bare), f"Odd.transition: {TELL}"),
        (of_state(Any), f"Odd.transition: {TELL}"),
        (of_state(End), f"Odd.transition: {TELL}"),
        (of_state(End | Failed), f"Odd.transition: {TELL}"),
        (made(short), "Odd.transition takes (self, state, turn)"),
        (made(long), "Odd.transition takes (self, state, turn)"),
        (made(stray), "name 'Nowhere' is not defined; states stand in the class or at the top of a module"),
        (of_state(int), "Odd: int is no state; write `@state` above its class"),
        (of_state(Start | None), "Odd: NoneType is no state; write `@state` above its class"),
        (of_state(dict[str, int]), "is no state; write `@state` above its class"),
        (of_state(Start | Loose), "Odd: Loose can be changed; write `@state`, or `@dataclass(frozen=True)`"),
        (of_state(Locked), "Odd: Locked cannot be kept as JSON: "),
        (of_state(Unknown), "Odd: Unknown cannot be kept as JSON: "),
        (of_state(Start | Sleep), "Odd: Sleep is returned, it is no state"),
        (of_state(Start | Wait), "Odd: Wait is returned, it is no state"),
        (of_state(Start | dataclass(frozen=True)(Twin)), "two of its states have the same name"),
        (Needy, "Needy cannot be made without arguments: "),
        (Half, f"Half.transition: {TELL}"),
        (made(fine, name="No Good"), "Odd: 'No Good' is no usable name: small letters, digits, '-', '_' and '.'"),
        (made(fine, name="a:b"), "Odd: 'a:b' is no usable name"),
        (made(fine, name="x" * 61), "is no usable name"),
    ],
)
def test_what_is_refused(cls: type[Actor], said: str) -> None:
    with pytest.raises(BadActor) as caught:
        define(cls)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_plain_frozen_dataclass_is_a_state_that_fails() -> None:
    assert resume_of(Plain) is Resume.FAIL
    assert define(of_state(Plain)).first.read({"n": 2}) == Plain(2)
