"""The graphs under test without state, with what must come out of them; and the list of all shapes.

Every document has its number `n`. Steps that are not deterministic answer differently on every call, so that a second
answer that was used instead of the first, or beside it, shows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tests.recovery.delivery.shape import (
    BROKEN,
    FILTERED,
    GOOD,
    RAISING,
    REFUSED,
    UNMET,
    Seen,
    Shape,
    compared,
    families,
    once,
)
from tests.recovery.delivery.shapes_with_state import DEDUPE, JOIN, STATEFUL, TIMER, WITH_STATE
from tests.recovery.delivery.target import Target, children

from towpath import Flow, expect, topic
from towpath.flow.delivery.ids import Strategy

__all__ = ["DEDUPE", "JOIN", "STATEFUL", "TIMER"]  # named here with the others
Document = dict[str, Any]


def _each(document: Document) -> Document | None:
    if document["kind"] == RAISING:
        raise ValueError("told to")
    return None if document["kind"] == FILTERED else document


def _errors(shape: Shape, seen: Seen, strategy: Strategy, *kinds: str) -> Iterator[str]:
    expected = Counter(dict.fromkeys(shape.numbers(seen, *kinds), len(shape.topics)))
    yield from compared("errors", seen.failed, expected, strategy, seen.forfeited)


# single: a source, a step, a function, an output


def _single(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}single", delivery=strategy)

    @flow.step(topic(f"{target.prefix}in"), schema="n int, kind string")
    @expect("is met", f"kind <> '{UNMET}'")
    def rows(frame: Any) -> Any:
        return frame.where("n >= 0")

    flow.load(flow.each(rows, deterministic=True, name="each")(_each), target.sink("main"), name="main")
    return flow


def _check_single(seen: Seen, strategy: Strategy) -> Iterator[str]:
    found = children(seen.outputs["main"])
    yield from compared("main", found, once(SINGLE.numbers(seen, GOOD)), strategy, seen.forfeited)
    yield from _errors(SINGLE, seen, strategy, RAISING, BROKEN)


# fork: goes to one of two outputs, by chance


def _fork(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}fork", delivery=strategy)
    sided = flow.each(topic(f"{target.prefix}in"), name="sided")(_sided)
    for side in ("left", "right"):
        flow.load(flow.each(sided, name=f"only-{side}")(_only(side)), target.sink(side), name=side)
    return flow


def _sided(document: Document) -> Document | None:
    kept = _each(document)
    return kept and {**kept, "side": random.choice(("left", "right"))}


def _only(side: str) -> Callable[[Document], Document | None]:
    return lambda document: document if document["side"] == side else None


def _check_fork(seen: Seen, strategy: Strategy) -> Iterator[str]:
    both = children([*seen.outputs["left"], *seen.outputs["right"]])
    yield from compared("both sides", both, once(FORK.numbers(seen, GOOD)), strategy, seen.forfeited)
    yield from _errors(FORK, seen, strategy, RAISING, BROKEN)


# many: as many children as chance will have it


def _many(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}many", delivery=strategy)
    flow.load(flow.each(topic(f"{target.prefix}in"), name="children")(_born), target.sink("main"), name="main")
    return flow


def _born(document: Document) -> list[Document]:
    kept = _each(document)
    if kept is None:
        return []
    count = random.randint(1, 4)
    return [{**kept, "child": child, "of": count} for child in range(count)]


def _check_many(seen: Seen, strategy: Strategy) -> Iterator[str]:
    yield from families("main", seen.outputs["main"], MANY.numbers(seen, GOOD), seen, strategy)
    yield from _errors(MANY, seen, strategy, RAISING, BROKEN)


# refusing: two outputs for everything, of which a table refuses some


def _refusing(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}refusing", delivery=strategy)
    kept = flow.each(topic(f"{target.prefix}in"), deterministic=True, name="each")(_each)
    flow.load(kept, target.sink("main"), name="main")
    flow.load(kept, other.sink("other"), name="other")
    return flow


def _check_refusing(seen: Seen, strategy: Strategy) -> Iterator[str]:
    for output in ("main", "other"):
        found = children(seen.outputs[output])
        yield from compared(output, found, once(REFUSING.numbers(seen, GOOD)), strategy, seen.forfeited)
    yield from _errors(REFUSING, seen, strategy, RAISING, BROKEN, REFUSED)


# chain: two stages, joined by a topic


def _chain(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}chain", delivery=strategy)
    first = flow.each(topic(f"{target.prefix}in"), deterministic=True, name="first")(_each)
    flow.load(first, topic(f"{target.prefix}between", partitions=2), name="between")
    flow.load(flow.each(topic(f"{target.prefix}between"), name="second")(_born), target.sink("main"), name="main")
    return flow


# wide: a step that shuffles


def _wide(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}wide", delivery=strategy)

    @flow.step(topic(f"{target.prefix}in"), schema="n int, kind string")
    def spread(frame: Any) -> Any:
        return frame.repartition(3, "n").where(f"kind <> '{FILTERED}'")

    flow.load(flow.each(spread, name="each")(_each), target.sink("main"), name="main")
    return flow


# any_of: two topics with the same records, each by itself


def _any_of(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}any-of", delivery=strategy)
    either = flow.any_of(topic(f"{target.prefix}in"), topic(f"{target.prefix}in2"))
    flow.load(flow.each(either, deterministic=True, name="each")(_each), target.sink("main"), name="main")
    return flow


def _check_any_of(seen: Seen, strategy: Strategy) -> Iterator[str]:
    expected = Counter(dict.fromkeys(((n, 0) for n in ANY_OF.numbers(seen, GOOD)), 2))
    yield from compared("main", children(seen.outputs["main"]), expected, strategy, seen.forfeited)
    yield from _errors(ANY_OF, seen, strategy, RAISING, BROKEN)


# parts: one task has so much that a SQLite table or topic takes it in several transactions


def _check_parts(seen: Seen, strategy: Strategy) -> Iterator[str]:
    found = children(seen.outputs["main"])
    yield from compared("main", found, once(PARTS.numbers(seen, GOOD)), strategy, seen.forfeited)
    yield from _errors(PARTS, seen, strategy, RAISING)


SINGLE = Shape("single", _single, ("main",), _check_single)
FORK = Shape("fork", _fork, ("left", "right"), _check_fork, is_deterministic=False)
MANY = Shape("many", _many, ("main",), _check_many, is_deterministic=False)
REFUSING = Shape(
    "refusing",
    _refusing,
    ("main", "other"),
    _check_refusing,
    kinds=(GOOD, GOOD, REFUSED, FILTERED, RAISING, BROKEN),
)
CHAIN = Shape("chain", _chain, ("main",), _check_many, is_deterministic=False, stages=2)
WIDE = Shape("wide", _wide, ("main",), _check_single, is_deterministic=False)
ANY_OF = Shape("any-of", _any_of, ("main",), _check_any_of, topics=("in", "in2"))
REMADE = Shape("remade", _many, ("main",), _check_many, is_deterministic=False, is_remade=True)
FIRST = Shape("first", _many, ("main",), _check_many, is_deterministic=False, is_first=True)
ALL = (SINGLE, FORK, MANY, REFUSING, CHAIN, WIDE, ANY_OF, REMADE, *WITH_STATE, FIRST)
SHAPES = {shape.name: shape for shape in ALL}

# Not in the product: it only differs where a unit has parts.
PARTS = Shape("parts", _single, ("main",), _check_parts, kinds=(*(GOOD,) * 5, RAISING), partitions=1, padding=900_000)
BUILT = {**SHAPES, PARTS.name: PARTS}
