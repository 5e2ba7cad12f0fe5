"""The verdict on a run: silent about what is right, and not about anything that is wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from soak.delivery import audit
from soak.delivery.flow import BY_CHANCE, LEFT, PARSED, RIGHT, SOURCE
from soak.delivery.found import Failed, Found
from soak.delivery.verdict import BLAMED, LAST, judge
from tests.support.sweep import sweep

Document = dict[str, Any]


def _value(n: int, kind: str) -> bytes:
    return json.dumps({"n": n, "kind": kind, "fits": n}).encode()


def _children(place: str, n: int, kind: str, route: str, count: int) -> list[Document]:
    parent = {**json.loads(_value(n, kind)), "place": place}
    return [{**parent, "child": at, "of": count, "route": route, "draw": f"draw {n}"} for at in range(count)]


def _found() -> Found:
    """One record of each fate: two families, filtered, raising, broken, refused, failed by chance."""
    source = {
        "0/0": _value(0, "good"),
        "1/0": _value(1, "good"),
        "0/1": _value(2, "filtered"),
        "1/1": _value(3, "raising"),
        "0/2": _value(4, "broken")[:-1],
        "1/2": _value(5, "refused"),
        "0/3": _value(6, "good"),
    }
    parsed = [{**json.loads(source[place]), "place": place} for place in ("0/0", "1/0", "1/2", "0/3")]
    left, right = _children("0/0", 0, "good", LEFT, 2), _children("1/0", 1, "good", RIGHT, 3)
    refused = _children("1/2", 5, "refused", RIGHT, 1)
    loaded = [{**child, "stamp": f"{child['n']}-{child['child']}"} for child in (*left, *right)]
    errors = [
        Failed(SOURCE, "1/1", source["1/1"], "told to"),
        Failed(SOURCE, "0/2", source["0/2"], "no JSON"),
        Failed(PARSED, "0/9", json.dumps(parsed[3]).encode(), BY_CHANCE),
        Failed(LAST, "1/7", json.dumps(refused[0]).encode(), "not a number"),
    ]
    return Found(source, parsed, {LEFT: left, RIGHT: [*right, *refused]}, loaded, copy.deepcopy(loaded), errors)


def test_nothing_is_wrong_where_all_is_right() -> None:
    verdict = judge(_found())
    assert verdict.problems == []
    assert verdict.counts["families"] == 3
    assert verdict.counts["children"] == 5
    assert verdict.counts["children refused by the table"] == 1
    assert verdict.counts["records that failed by chance"] == 1


def _other_draw(found: Found) -> Found:
    """A second answer beside the first: a family of which one child is another's."""
    left = [found.routes[LEFT][0], {**found.routes[LEFT][1], "draw": "another"}]
    return replace(found, routes={**found.routes, LEFT: left})


def _both_ways(found: Found) -> Found:
    moved = {**found.routes[LEFT][1], "route": RIGHT}
    return replace(found, routes={LEFT: found.routes[LEFT][:1], RIGHT: [*found.routes[RIGHT], moved]})


def _also_an_error(found: Found) -> Found:
    extra = Failed(LAST, "0/5", json.dumps(found.routes[LEFT][0]).encode(), "not a number")
    return replace(found, errors=[*found.errors, extra])


def _half_lost(found: Found) -> Found:
    return replace(found, routes={**found.routes, LEFT: found.routes[LEFT][:1]}, out=found.out[1:], table=found.table)


WRONG: dict[str, tuple[Callable[[Found], Found], str]] = {
    "a row is lost": (lambda f: replace(f, table=f.table[1:]), "table 0 instead of 1"),
    "a row is there twice": (lambda f: replace(f, table=[*f.table, f.table[0]]), "table 2 instead of 1"),
    "a record is lost": (lambda f: replace(f, out=f.out[:-1]), "out 0 instead of 1"),
    "a record is there twice": (lambda f: replace(f, out=[*f.out, f.out[0]]), "out 2 instead of 1"),
    "a parsed one is lost": (lambda f: replace(f, parsed=f.parsed[1:]), "parsed 0 instead of 1"),
    "a parsed one is there twice": (lambda f: replace(f, parsed=[*f.parsed, f.parsed[0]]), "parsed 2 instead of 1"),
    "a family is lost": (lambda f: replace(f, routes={**f.routes, LEFT: []}), "its family is lost"),
    "a child is lost": (_half_lost, "its children [1] are lost"),
    "a child is there twice": (
        lambda f: replace(f, routes={**f.routes, LEFT: [*f.routes[LEFT], f.routes[LEFT][0]]}),
        "its children [0] are there too often",
    ),
    "two families": (_other_draw, "children of several families"),
    "two ways": (_both_ways, "children on 2 ways"),
    "an error is lost": (lambda f: replace(f, errors=f.errors[1:]), "errors 0 instead of 1"),
    "an error is there twice": (lambda f: replace(f, errors=[*f.errors, f.errors[0]]), "errors 2 instead of 1"),
    "a refusal is lost": (lambda f: replace(f, errors=f.errors[:-1]), "(refused): errors 0 instead of 1"),
    "delivered and an error": (_also_an_error, "errors 1 instead of 0"),
    "two stamps": (
        lambda f: replace(f, out=[{**f.out[0], "stamp": "another"}, *f.out[1:]]),
        "one stamp in the table, another in the topic",
    ),
    "a foreign row": (lambda f: replace(f, table=[*f.table, {**f.table[0], "place": "7/7"}]), "that nobody sent"),
    "a foreign error": (
        lambda f: replace(f, errors=[*f.errors, Failed(SOURCE, "7/7", b"", "told to")]),
        "that nobody sent",
    ),
    "a changed value": (lambda f: replace(f, table=[{**f.table[0], "n": 99}, *f.table[1:]]), "changed on its way"),
    "an unknown stage": (
        lambda f: replace(f, errors=[*f.errors, Failed("other", "0/0", b"", "told to")]),
        "stages that are none",
    ),
}


@sweep("name", WRONG)
def test_what_is_wrong_is_told(name: str) -> None:
    change, told = WRONG[name]
    problems = judge(change(_found())).problems
    assert any(told in problem for problem in problems), problems


def test_a_record_may_be_set_aside_for_a_killed_worker() -> None:
    """If it is nowhere else: nobody can know that the worker would have lived with another record."""
    found = _found()
    aside = Failed(SOURCE, "0/0", found.source["0/0"], f"{BLAMED}: exited")
    alone = replace(
        found,
        parsed=found.parsed[1:],
        routes={**found.routes, LEFT: []},
        out=found.out[2:],
        table=found.table[2:],
        errors=[*found.errors, aside],
    )
    assert judge(alone).problems == []
    assert judge(alone).counts["set aside for a killed worker"] == 1
    both = judge(replace(found, errors=[*found.errors, aside])).problems
    assert any("parsed 1 instead of 0" in problem for problem in both), both


def test_the_audit_has_to_prove_every_output() -> None:
    said: dict[str, Any] = {"is_balanced": True, "problems": [], "outputs": [], "not_provable": []}
    proven = {"output": "out", "proof": "proven", "why": ""}
    assert audit.problems({**said, "outputs": [proven]}) == []
    assert audit.problems({**said, "outputs": [{**proven, "proof": "partly provable"}]})
    assert audit.problems({**said, "is_balanced": False})
    assert audit.problems({**said, "problems": [{"kind": "delivery missing", "stage": "source", "found": "1"}]})
    assert audit.problems({**said, "not_provable": [{"what": "it", "why": "gone"}]})
