"""The fields of states, templates to fill in, and the moves that are found in an actor's code."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

import pytest
from tests.unit.test_actor_definition import Crawler, Fetch, Plain, Rest, Start, of_state

from towpath.actors import Actor, End, Failed, Sleep, Turn, Wait, state
from towpath.actors.definition import define
from towpath.actors.graph.shape import moves_in_code, shape_of, template
from towpath.errors import BadState

# Fields


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({}, "this is no Fetch: url: field required"),
        ({"url": 1}, "this is no Fetch: url: input should be a valid string"),
        ({"url": "x", "tries": "many"}, "this is no Fetch: tries: input should be a valid integer"),
        ({"tries": []}, "this is no Fetch: url: field required; tries: input should be a valid integer"),
        ([1], "this is no Fetch: "),
        ("text", "this is no Fetch: "),
    ],
)
def test_fields_that_do_not_fit(payload: Any, said: str) -> None:
    with pytest.raises(BadState) as caught:
        define(Crawler).kind("Fetch").read(payload)
    assert said in str(caught.value)


def test_a_state_that_is_none() -> None:
    with pytest.raises(BadState, match="'Gone'"):
        define(Crawler).kind("Gone")
    with pytest.raises(BadState):
        define(Crawler).kind_of(Plain(1))


def test_a_value_that_is_not_what_it_says() -> None:
    kind = define(Crawler).kind("Fetch")
    with pytest.raises(BadState, match="Fetch"):
        kind.write(Fetch(url=object()))  # type: ignore[arg-type]


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@state
class Inner:
    name: str
    depth: int = 3


@state
class Rich:
    """Has fields of many kinds."""

    text: str
    count: int
    share: float
    flag: bool
    names: list[str]
    table: dict[str, int]
    colour: Colour
    word: Literal["yes", "no"]
    inner: Inner
    maybe: str | None
    at: dt.datetime
    id: UUID
    cents: Decimal
    given: int = 7
    nothing: str | None = None


def test_a_template_can_be_filled_in() -> None:
    found = template(define(of_state(Rich)).first)
    assert found == {
        "text": "<text>",
        "count": 0,
        "share": 0,
        "flag": False,
        "names": [],
        "table": {},
        "colour": "red",
        "word": "yes",
        "inner": {"name": "<name>", "depth": 3},
        "maybe": "<text>",
        "at": "<date-time>",
        "id": "<uuid>",
        "cents": 0,
        "given": 7,
        "nothing": None,
    }
    kind = define(of_state(Rich)).first
    filled = found | {"at": "2026-01-31T10:00:00Z", "id": "01980000-0000-7000-8000-000000000000"}
    assert kind.write(kind.read(filled))["inner"] == {"name": "<name>", "depth": 3}


def test_the_template_of_a_state_without_fields() -> None:
    assert template(define(Crawler).first) == {}


def test_the_shape_that_others_see() -> None:
    shape = shape_of(define(Crawler))
    assert shape["first"] == "Start"
    assert shape["states"][1] == {
        "name": "Fetch",
        "about": "Fetches a page.",
        "resume": "retry",
        "is_terminal": False,
        "template": {"url": "<url>", "tries": 0},
    }
    assert shape["states"][2]["about"] == "", "what a dataclass writes by itself says nothing"


# Moves in the code


class Mover(Actor):
    """Moves in all ways."""

    def transition(self, state: Start | Fetch | Rest | End | Failed, turn: Turn) -> Any:
        match state:
            case Start() if turn.attempt > 3:
                return Failed("too often")
            case Start():
                question = turn.send("work", "ASK")
                return Wait(question, Fetch("x"), timeout_s=5, otherwise=Rest())
            case Fetch(url, tries) as fetch:
                following = Fetch(url, tries + 1)
                if tries:
                    return following
                return End() if fetch.url else self._later(tries)
            case Rest() | Failed():
                return Sleep(then=Start(), seconds=1)
        return None

    def _later(self, tries: int) -> Any:
        if tries > 9:
            return self._later(tries - 1)
        return Sleep(Rest(), seconds=1)


def test_moves_in_code() -> None:
    assert [tuple(move) for move in moves_in_code(Mover, set(define(Mover).states))] == [
        ("Start", "Failed", ""),
        ("Start", "Fetch", "answered"),
        ("Start", "Rest", "timed out"),
        ("Fetch", "Fetch", ""),
        ("Fetch", "End", ""),
        ("Fetch", "Rest", "after a sleep"),
        ("Rest", "Start", "after a sleep"),
        ("Failed", "Start", "after a sleep"),
    ]


class Namer(Actor):
    """Names its states with the class, and waits by place."""

    @state
    class Ask:
        pass

    @state
    class Heard:
        pass

    def transition(self, state: Ask | Heard | End, turn: Turn) -> Any:
        match state:
            case Namer.Ask():
                return Wait(["x"], Namer.Heard(), 5.0, Namer.Ask())
            case self.Heard():
                return self.Heard()
        return None


def test_moves_to_states_in_the_class() -> None:
    assert [tuple(move) for move in moves_in_code(Namer, set(define(Namer).states))] == [
        ("Ask", "Heard", "answered"),
        ("Ask", "Ask", "timed out"),
        ("Heard", "Heard", ""),
    ]


def test_no_source_no_moves() -> None:
    namespace: dict[str, Any] = {"Actor": Actor, "Start": Start, "Turn": Turn, "End": End}
    exec("class Typed(Actor):\n  'T.'\n  def transition(self, state: Start, turn: Turn): return End()", namespace)
    assert moves_in_code(namespace["Typed"], {"Start", "End"}) == []
    assert shape_of(define(namespace["Typed"]))["moves"] == []
