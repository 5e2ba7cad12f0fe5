"""Steps that take only some topics or types: the rest is filtered, and counted to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.support.segments import TOPIC, Bench, Listing, call, load

from towpath import Flow, topic
from towpath.errors import BadFlow
from towpath.flow.graph.nodes import InputFilter


def marked(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "marked": True}


def retyped(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "type": "later"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "reports")


def test_what_is_not_of_its_types_is_filtered_by_the_step(bench: Bench) -> None:
    sink = Listing()
    takes = InputFilter(types=frozenset({"page.viewed", "page.left"}))
    others: list[Any] = [{"type": "order"}, {}, {"type": None}, {"type": 7}, {"type": ["page.viewed"]}, {"type": {}}]
    values = [{"type": "page.viewed", "n": 1}, *others, b"{", {"type": "page.left"}, {"Type": "page.left"}]
    outcome = bench.run(values, load(sink, call(marked, "views", takes=takes)))
    assert sink.payloads == [b'{"type": "page.viewed", "n": 1,"marked":true}', b'{"type": "page.left","marked":true}']
    assert outcome.filtered == Counter(views=7)
    assert (outcome.read, outcome.loaded, outcome.failed) == (10, 2, Counter({7: 1}))
    assert outcome.is_balanced


def test_the_type_is_that_of_the_document_which_comes_to_the_step(bench: Bench) -> None:
    sink = Listing()
    late = call(marked, "late", takes=InputFilter(types=frozenset({"later"})))
    outcome = bench.run([{"type": "x"}, {}], load(sink, call(retyped, "early"), late))
    assert (outcome.loaded, len(sink.payloads)) == (2, 2)
    assert bench.run([{"type": "x"}], load(Listing(), late)).filtered == Counter(late=1)


def test_another_field_and_the_topic(bench: Bench) -> None:
    values = [{"name": "a", "type": "b"}, {"name": "b", "type": "a"}]
    for takes, loaded in [
        (InputFilter(types=frozenset("a"), type_field="name"), 1),
        (InputFilter(topics=frozenset({TOPIC})), 2),
        (InputFilter(topics=frozenset({"other"})), 0),
        (InputFilter(frozenset({TOPIC}), frozenset("a")), 1),
        (InputFilter(frozenset({"other"}), frozenset("a")), 0),
    ]:
        bench.home = bench.home.parent / str(takes)
        outcome = bench.run(values, load(Listing(), call(marked, takes=takes)))
        assert (outcome.loaded, outcome.filtered.total()) == (loaded, 2 - loaded), takes


def test_two_outputs_by_type(bench: Bench) -> None:
    """What neither takes was filtered; what one of them takes was loaded."""
    sinks = {type: Listing() for type in "ab"}
    loads = [
        load(sink, call(marked, type, takes=InputFilter(types=frozenset(type))), output=type)
        for type, sink in sinks.items()
    ]
    outcome = bench.run([{"type": type} for type in "abcab"], *loads)
    assert {type: len(sink.payloads) for type, sink in sinks.items()} == {"a": 2, "b": 2}
    assert (outcome.loaded, outcome.filtered.total()) == (4, 1)


@pytest.mark.parametrize("names", ["page.viewed", (), [7], [None]])
@pytest.mark.parametrize("option", ["topics", "types"])
def test_a_name_alone_is_not_taken_for_its_letters(option: str, names: Iterable[str]) -> None:
    for made in (Flow("f").step, Flow("f").each):
        with pytest.raises(BadFlow, match=f"{option}="):
            made(topic("t"), name="s", **{option: names})(marked)  # type: ignore[arg-type]
