"""Names with fields in them."""

from __future__ import annotations

import pickle
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from towpath.errors import BadFlow
from towpath.flow.sinks.template import NotInTemplate, Template


@pytest.mark.parametrize(
    ("text", "document", "filled"),
    [
        ("views", {}, "views"),
        ("views-{day}", {"day": "2026-01-31"}, "views-2026-01-31"),
        ("{a}-{b}", {"a": 1, "b": True}, "1-true"),
        ("{{x}}", {}, "{x}"),
        ("{{{x}}}", {"x": 1}, "{1}"),
        ("{d}", {"d": date(2026, 1, 31)}, "2026-01-31"),
        ("{n}", {"n": Decimal("1.10")}, "1.10"),
        ("{x}", {"x": "{y} %s \\ \x00"}, "{y} %s \\ \x00"),
    ],
)
def test_filled(text: str, document: dict[str, Any], filled: str) -> None:
    assert Template(text).filler()(document) == filled


@pytest.mark.parametrize("value", [None, [], {}, {"a": 1}, b"x"])
def test_what_makes_no_name(value: Any) -> None:
    with pytest.raises(NotInTemplate, match="'x'"):
        Template("a-{x}").filler()({"x": value})
    with pytest.raises(NotInTemplate):
        Template("a-{x}").filler()({})


@pytest.mark.parametrize("text", ["", "{", "}", "{}", "{0.x}", "{x!r}", "{x:>9}", "{x.__class__}", "{x[0]}", "{a b}"])
def test_refused(text: str) -> None:
    """Python's own formatting could reach into objects; a name of a field is all that is allowed."""
    with pytest.raises(BadFlow):
        Template(text)


def test_fields_and_copies() -> None:
    template = Template("{a}-{b}-{a}")
    assert template.fields == ("a", "b", "a")
    assert not template.is_fixed
    assert Template("x").is_fixed
    assert pickle.loads(pickle.dumps(template)) == template  # noqa: S301 - our own bytes
    assert len({template, Template("{a}-{b}-{a}"), Template("x")}) == 2
