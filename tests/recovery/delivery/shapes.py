"""The graphs under test, with the records that go in and what must come out of them.

Every document has its number `n`. Steps that are not deterministic answer differently on every call, so that a second
answer that was used instead of the first, or beside it, shows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.recovery.delivery.targets import Child, Rows, Target, children

from towpath import Flow, expect, topic
from towpath.flow.stateful import Dedupe, field
from towpath.flow.strategy import Strategy

GOOD, FILTERED, UNMET, RAISING, REFUSED, BROKEN = "good", "filtered", "unmet", "raising", "refused", "broken"
KINDS = (GOOD, GOOD, GOOD, FILTERED, RAISING, BROKEN)
COUNT = 18
Document = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """What is there after all attempts."""

    outputs: Mapping[str, Rows]
    failed: Counter[int]  # error records, by number of the record


@dataclass(frozen=True)
class Shape:
    """One graph."""

    name: str
    build: Callable[[Strategy, Target, Target], Flow]  # the other target has the other opinion about refusing
    outputs: tuple[str, ...]
    check: Callable[[Seen, Strategy], Iterator[str]]
    kinds: tuple[str, ...] = KINDS
    topics: tuple[str, ...] = ("in",)
    is_deterministic: bool = True
    copies: int = 1  # how often each record is sent
    stages: int = 1

    def values(self, start: int, stop: int) -> list[tuple[int, bytes]]:
        """Numbers and texts of some records; of one kind each, in turn."""
        made = []
        for n in range(start, stop):
            kind = self.kinds[n % len(self.kinds)]
            fits = '"no number"' if kind == REFUSED else "1"
            text = f'{{"n": {n}, "kind": "{kind}", "fits": {fits}}}' if kind != BROKEN else f'{{"n": {n},'
            made += [(n, text.encode())] * self.copies
        return made

    def numbers(self, *kinds: str) -> set[int]:
        return {n for n in range(COUNT) if self.kinds[n % len(self.kinds)] in kinds}


def compared(what: str, found: Counter[Any], expected: Counter[Any], strategy: Strategy) -> Iterator[str]:
    """What differs, as far as the strategy does not allow it."""
    if foreign := sorted(set(found) - set(expected)):
        yield f"{what}: {foreign} were never to be there"
    if strategy is not Strategy.AT_MOST_ONCE and (lost := sorted((expected - found).elements())):
        yield f"{what}: {lost} are lost"
    if strategy is not Strategy.AT_LEAST_ONCE and (twice := sorted((found - expected).elements())):
        yield f"{what}: {twice} are there too often"


def _each(document: Document) -> Document | None:
    if document["kind"] == RAISING:
        raise ValueError("told to")
    return None if document["kind"] == FILTERED else document


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
    yield from compared("main", children(seen.outputs["main"]), _once(SINGLE.numbers(GOOD)), strategy)
    yield from compared("errors", seen.failed, Counter(SINGLE.numbers(RAISING, BROKEN)), strategy)


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
    yield from compared("both sides", both, _once(FORK.numbers(GOOD)), strategy)
    yield from compared("errors", seen.failed, Counter(FORK.numbers(RAISING, BROKEN)), strategy)


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
    rows = seen.outputs["main"]
    found = children(rows)
    expected: Counter[Child] = Counter()
    for n in MANY.numbers(GOOD):
        counts = {row["of"] for row in rows if row["n"] == n}
        if strategy is not Strategy.AT_LEAST_ONCE and len(counts) > 1:
            yield f"main: {n} has children of several families: {counts}"
        expected += Counter((n, child) for child in range(max(counts, default=1)))
    if strategy is Strategy.AT_LEAST_ONCE:  # a second family may be smaller
        expected = Counter({(n, 0): 1 for n in MANY.numbers(GOOD)})
        found = Counter({each: count for each, count in found.items() if each[1] == 0})
    yield from compared("main", found, expected, strategy)
    yield from compared("errors", seen.failed, Counter(MANY.numbers(RAISING, BROKEN)), strategy)


# refusing: two outputs for everything, of which a table refuses some


def _refusing(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}refusing", delivery=strategy)
    kept = flow.each(topic(f"{target.prefix}in"), deterministic=True, name="each")(_each)
    flow.load(kept, target.sink("main"), name="main")
    flow.load(kept, other.sink("other"), name="other")
    return flow


def _check_refusing(seen: Seen, strategy: Strategy) -> Iterator[str]:
    for output in ("main", "other"):
        yield from compared(output, children(seen.outputs[output]), _once(REFUSING.numbers(GOOD)), strategy)
    yield from compared("errors", seen.failed, Counter(REFUSING.numbers(RAISING, BROKEN, REFUSED)), strategy)


# chain: two stages, joined by a topic


def _chain(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}chain", delivery=strategy)
    first = flow.each(topic(f"{target.prefix}in"), deterministic=True, name="first")(_each)
    flow.load(first, topic(f"{target.prefix}between", partitions=2), name="between")
    flow.load(flow.each(topic(f"{target.prefix}between"), name="second")(_born), target.sink("main"), name="main")
    return flow


def _check_chain(seen: Seen, strategy: Strategy) -> Iterator[str]:
    yield from _check_many(seen, strategy)


# wide: a step that shuffles


def _wide(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}wide", delivery=strategy)

    @flow.step(topic(f"{target.prefix}in"), schema="n int, kind string")
    def spread(frame: Any) -> Any:
        return frame.repartition(3, "n").where(f"kind <> '{FILTERED}'")

    flow.load(flow.each(spread, name="each")(_each), target.sink("main"), name="main")
    return flow


def _check_wide(seen: Seen, strategy: Strategy) -> Iterator[str]:
    yield from _check_single(seen, strategy)


# dedupe: everything is sent twice


def _dedupe(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}dedupe", delivery=strategy)
    once = Dedupe(sender=field("kind"), sequence=field("n"))
    kept = flow.each(topic(f"{target.prefix}in", dedupe=once), deterministic=True, name="each")(_each)
    flow.load(kept, target.sink("main"), name="main")
    return flow


def _check_dedupe(seen: Seen, strategy: Strategy) -> Iterator[str]:
    yield from compared("main", children(seen.outputs["main"]), _once(DEDUPE.numbers(GOOD)), strategy)
    yield from compared("errors", seen.failed, Counter(DEDUPE.numbers(RAISING)), strategy)


# stateful: each record is given its running number within its kind


def _stateful(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}stateful", delivery=strategy)
    counted = flow.stateful(topic(f"{target.prefix}in"), key=field("kind"), name="counted")(_counted)
    flow.load(counted, target.sink("main"), name="main")
    return flow


def _counted(document: Document, state: dict[str, Any]) -> Document:
    state["seen"] = state.get("seen", 0) + 1
    return {**document, "child": state["seen"]}


def _check_stateful(seen: Seen, strategy: Strategy) -> Iterator[str]:
    rows = seen.outputs["main"]
    numbers = Counter(row["n"] for row in rows)
    yield from compared("main", numbers, Counter(range(COUNT)), strategy)
    if strategy is Strategy.EXACTLY_ONCE:
        for kind in STATEFUL.kinds:
            given = sorted(row["child"] for row in rows if row["kind"] == kind)
            if given != list(range(1, len(given) + 1)):
                yield f"main: the records of {kind} were counted {given}"


# any_of: two topics with the same records, each by itself


def _any_of(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}any-of", delivery=strategy)
    either = flow.any_of(topic(f"{target.prefix}in"), topic(f"{target.prefix}in2"))
    flow.load(flow.each(either, deterministic=True, name="each")(_each), target.sink("main"), name="main")
    return flow


def _check_any_of(seen: Seen, strategy: Strategy) -> Iterator[str]:
    good, bad = ANY_OF.numbers(GOOD), ANY_OF.numbers(RAISING, BROKEN)
    yield from compared("main", children(seen.outputs["main"]), Counter({(n, 0): 2 for n in good}), strategy)
    yield from compared("errors", seen.failed, Counter(dict.fromkeys(bad, 2)), strategy)


# join: the k-th record of two topics together


def _join(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}join", delivery=strategy)
    pair = flow.join(one=topic(f"{target.prefix}in"), two=topic(f"{target.prefix}in2"), key=field("n"), name="pair")
    flow.load(flow.each(pair, deterministic=True, name="each")(_paired), target.sink("main"), name="main")
    return flow


def _paired(document: Document) -> Document:
    return {"n": document["one"]["n"], "same": document["one"] == document["two"]}


def _check_join(seen: Seen, strategy: Strategy) -> Iterator[str]:
    rows = seen.outputs["main"]
    yield from compared("main", children(rows), _once(set(range(COUNT))), strategy)
    if strange := [row["n"] for row in rows if not row["same"]]:
        yield f"main: {strange} were joined with others"


def _once(numbers: set[int]) -> Counter[Child]:
    return Counter((n, 0) for n in numbers)


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
CHAIN = Shape("chain", _chain, ("main",), _check_chain, is_deterministic=False, stages=2)
WIDE = Shape("wide", _wide, ("main",), _check_wide, is_deterministic=False)
DEDUPE = Shape("dedupe", _dedupe, ("main",), _check_dedupe, kinds=(GOOD, GOOD, FILTERED, RAISING), copies=2)
STATEFUL = Shape("stateful", _stateful, ("main",), _check_stateful, kinds=("a", "b", "c"))
ANY_OF = Shape("any-of", _any_of, ("main",), _check_any_of, topics=("in", "in2"))
JOIN = Shape("join", _join, ("main",), _check_join, kinds=("a",), topics=("in", "in2"))
ALL = (SINGLE, FORK, MANY, REFUSING, CHAIN, WIDE, DEDUPE, STATEFUL, ANY_OF, JOIN)
SHAPES = {shape.name: shape for shape in ALL}
