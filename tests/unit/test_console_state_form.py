"""Forms for the fields of states: what is shown by their types, and that what comes back is what was meant."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal

import pytest

from towpath.actors import Actor, End, Failed, Turn, state
from towpath.actors.definition import define
from towpath.actors.graph.shape import shape_of
from towpath.actors.registry import KnownClass
from towpath.errors import BadPayload, BadValue
from towpath.web.auth import FormData
from towpath.web.console.actors.state_form import FieldWidget, FormField, fields_of, filled, grouped, read_form


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Plan:
    home: str
    sites: tuple[str, ...]
    connect_to: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[str, ...] = ("crawl", "load")


@state
class Begin:
    """A run was asked for."""

    plan: Plan
    count: int
    share: float = 0.5
    is_quick: bool = True
    colour: Colour = Colour.BLUE
    way: Literal["up", "down"] | None = None
    most: int | None = None
    is_sure: bool | None = None
    price: Decimal = Decimal("1.10")
    at: datetime | None = None
    others: list[int] = field(default_factory=list)
    anything: Any = None


class Planner(Actor):
    """Plans."""

    def transition(self, state: Begin | End | Failed, turn: Turn) -> End:
        return End()


@pytest.fixture
def known() -> KnownClass:
    definition = define(Planner)
    return KnownClass("planner", "Plans.", shape_of(definition), True, definition)


@pytest.fixture
def distant(known: KnownClass) -> KnownClass:
    """As another process has written it down."""
    return KnownClass("planner", "Plans.", json.loads(json.dumps(known.shape)))


def by_name(fields: list[FormField]) -> dict[str, FormField]:
    return {each.name: each for each in fields}


def as_shown(fields: list[FormField], **changed: str) -> FormData:
    """What a browser sends of a form as it is shown, with some of it changed."""
    names = {f"f.{name.replace('__', '.')}": value for name, value in changed.items()}
    sent = [(each.name, names.get(each.name, each.value)) for each in fields]
    return FormData(
        [(name, value) for name, value in sent if value or by_name(fields)[name].kind is not FieldWidget.TICK]
    )


def test_fields_are_shown_by_their_types(known: KnownClass) -> None:
    shown = by_name(fields_of(known, "Begin"))
    assert {name: (each.kind, each.value) for name, each in shown.items()} == {
        "f.plan.home": (FieldWidget.TEXT, ""),
        "f.plan.sites": (FieldWidget.LINES, ""),
        "f.plan.connect_to": (FieldWidget.JSON, "{}"),
        "f.plan.parts": (FieldWidget.LINES, "crawl\nload"),
        "f.count": (FieldWidget.NUMBER, ""),
        "f.share": (FieldWidget.NUMBER, "0.5"),
        "f.is_quick": (FieldWidget.TICK, "yes"),
        "f.colour": (FieldWidget.CHOICE, '"blue"'),
        "f.way": (FieldWidget.CHOICE, ""),
        "f.most": (FieldWidget.NUMBER, ""),
        "f.is_sure": (FieldWidget.CHOICE, ""),
        "f.price": (FieldWidget.TEXT, "1.10"),
        "f.at": (FieldWidget.TEXT, ""),
        "f.others": (FieldWidget.JSON, "[]"),
        "f.anything": (FieldWidget.JSON, "null"),
    }
    assert shown["f.colour"].choices == ('"red"', '"blue"')
    assert shown["f.count"].is_needed
    assert not shown["f.most"].is_needed
    assert shown["f.most"].may_be_none
    assert (shown["f.plan.home"].group, shown["f.plan.home"].label) == ("plan", "home")
    groups = [(group, len(found)) for group, found in grouped(list(shown.values()))]
    assert groups == [("plan", 4), ("", 11)]


def test_what_is_filled_in_is_a_state(known: KnownClass) -> None:
    fields = fields_of(known, "Begin")
    form = as_shown(
        fields, plan__home="/x", plan__sites="a.org\r\n b.org \n\n", count="3", most="", way='"up"', is_quick=""
    )
    found = read_form(fields, form)
    made = known.definition.kind("Begin").read(found) if known.definition else None
    assert made == Begin(Plan("/x", ("a.org", "b.org")), 3, is_quick=False, way="up", price=Decimal("1.10"), others=[])


def test_values_that_are_given_come_back_as_they_were(known: KnownClass, distant: KnownClass) -> None:
    plan = {"home": "<h>", "sites": ["a", "b"], "connect_to": {"a.b": "c"}, "parts": []}
    given = {"plan": plan, "count": -7, "share": 1e-9, "is_quick": False, "colour": "red", "way": "down", "most": 2**70}
    given |= {
        "is_sure": False,
        "price": "3.000",
        "at": "2026-01-31T10:00:00Z",
        "others": [1, 2],
        "anything": {"x": [None]},
    }
    for each in (known, distant):
        fields = fields_of(each, "Begin", given)
        assert read_form(fields, as_shown(fields)) == given


def test_lists_that_lines_cannot_hold_are_json(known: KnownClass) -> None:
    given = {"plan": {"sites": ["two\nlines", " space "]}}
    shown = by_name(fields_of(known, "Begin", given))["f.plan.sites"]
    assert (shown.kind, json.loads(shown.value)) == (FieldWidget.JSON, ["two\nlines", " space "])


def test_a_state_of_another_process_is_shown_by_its_template(distant: KnownClass) -> None:
    shown = by_name(fields_of(distant, "Begin"))
    assert shown["f.count"].kind is FieldWidget.NUMBER
    assert shown["f.is_quick"].kind is FieldWidget.TICK
    assert shown["f.plan"].kind is FieldWidget.JSON
    assert shown["f.most"].may_be_none
    assert [each.name for each in fields_of(distant, "End")] == ["f.result"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("count", "three"), ("count", "true"), ("count", ""), ("colour", '"green"'), ("others", "[1,")],
)
def test_what_does_not_fit_is_said(known: KnownClass, name: str, text: str) -> None:
    fields = fields_of(known, "Begin")
    with pytest.raises(BadValue, match=name):
        read_form(fields, as_shown(fields, **{"count": "1", name: text}))


def test_all_at_once_as_json(known: KnownClass) -> None:
    fields = fields_of(known, "Begin")
    assert read_form(fields, FormData([("fields", ' {"count": 1} '), ("f.count", "9")])) == {"count": 1}
    with pytest.raises(BadPayload):
        read_form(fields, FormData([("fields", "{")]))


def test_what_was_filled_in_is_shown_again(known: KnownClass) -> None:
    shown = by_name(filled(fields_of(known, "Begin"), FormData([("f.count", "three"), ("f.plan.home", "<x>")])))
    assert (shown["f.count"].value, shown["f.plan.home"].value, shown["f.is_quick"].value) == ("three", "<x>", "")
