"""The graphs under test that keep state in Spark, with what must come out of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.recovery.delivery.shape import FILTERED, GOOD, RAISING, Seen, Shape, compared, once
from tests.recovery.delivery.target import Target, children

from towpath import Flow, topic
from towpath.flow.delivery.ids import Strategy
from towpath.flow.graph.stateful_nodes import Moment
from towpath.flow.stateful import Dedupe, field

Document = dict[str, Any]

# dedupe: everything is sent twice, and a third time with the next batch


def _dedupe(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}dedupe", delivery=strategy)
    seen_once = Dedupe(sender=field("kind"), sequence=field("n"))
    kept = flow.each(topic(f"{target.prefix}in", dedupe=seen_once), deterministic=True, name="each")(_kept)
    flow.load(kept, target.sink("main"), name="main")
    return flow


def _kept(document: Document) -> Document | None:
    if document["kind"] == RAISING:
        raise ValueError("told to")
    return None if document["kind"] == FILTERED else document


def _check_dedupe(seen: Seen, strategy: Strategy) -> Iterator[str]:
    found = children(seen.outputs["main"])
    yield from compared("main", found, once(DEDUPE.numbers(seen, GOOD)), strategy, seen.forfeited)
    yield from compared("errors", seen.failed, Counter(DEDUPE.numbers(seen, RAISING)), strategy, seen.forfeited)


# stateful: each record is given its running number within its kind


def _stateful(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}stateful", delivery=strategy)
    counted = flow.stateful(topic(f"{target.prefix}in"), key=field("kind"), name="counted")(_counted)
    flow.load(counted, target.sink("main"), name="main")
    return flow


def _counted(document: Document, state: dict[str, Any]) -> Document:
    if document["kind"] == RAISING:
        raise ValueError("told to")
    state["seen"] = state.get("seen", 0) + 1
    return {**document, "child": state["seen"]}


def _check_stateful(seen: Seen, strategy: Strategy) -> Iterator[str]:
    rows = seen.outputs["main"]
    numbers = Counter(row["n"] for row in rows)
    yield from compared("main", numbers, Counter(STATEFUL.numbers(seen, "a", "b")), strategy, seen.forfeited)
    yield from compared("errors", seen.failed, Counter(STATEFUL.numbers(seen, RAISING)), strategy, seen.forfeited)
    if strategy is Strategy.EXACTLY_ONCE:
        for kind in ("a", "b"):
            given = sorted(row["child"] for row in rows if row["kind"] == kind)
            if given != list(range(1, len(given) + 1)):
                yield f"main: the records of {kind} were counted {given}"


# join: the k-th record of two topics together


def _join(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}join", delivery=strategy)
    pair = flow.join(one=topic(f"{target.prefix}in"), two=topic(f"{target.prefix}in2"), key=field("n"), name="pair")
    flow.load(flow.each(pair, deterministic=True, name="each")(_paired), target.sink("main"), name="main")
    return flow


def _paired(document: Document) -> Document:
    if document["one"]["kind"] == RAISING:
        raise ValueError("told to")
    return {"n": document["one"]["n"], "same": document["one"] == document["two"]}


def _check_join(seen: Seen, strategy: Strategy) -> Iterator[str]:
    rows = seen.outputs["main"]
    yield from compared("main", children(rows), once(JOIN.numbers(seen, "a")), strategy, seen.forfeited)
    yield from compared("errors", seen.failed, Counter(JOIN.numbers(seen, RAISING)), strategy, seen.forfeited)
    if strange := [row["n"] for row in rows if not row["same"]]:
        yield f"main: {strange} were joined with others"


# timer: nothing comes out of the records; each wakes its key, in a batch that has no input of a user


def _timer(strategy: Strategy, target: Target, other: Target) -> Flow:
    flow = Flow(f"{target.prefix}timer", delivery=strategy)
    asleep = flow.stateful(topic(f"{target.prefix}in"), key=field("n"), name="asleep", on_wake=_woken)(_asleep)
    flow.load(asleep, target.sink("main"), name="main")
    return flow


def _asleep(document: Document, state: dict[str, Any], moment: Moment) -> None:
    state["document"] = document
    moment.wake_in(0)


def _woken(state: dict[str, Any], moment: Moment) -> Document:
    found: Document = state["document"]
    return found


def _check_timer(seen: Seen, strategy: Strategy) -> Iterator[str]:
    found = children(seen.outputs["main"])
    yield from compared("main", found, once(set(range(seen.count))), strategy, seen.forfeited)
    yield from compared("errors", seen.failed, Counter(), strategy)


DEDUPE = Shape(
    "dedupe", _dedupe, ("main",), _check_dedupe, kinds=(GOOD, GOOD, FILTERED, RAISING), copies=2, repeats=True
)
STATEFUL = Shape("stateful", _stateful, ("main",), _check_stateful, kinds=("a", "b", RAISING))
JOIN = Shape("join", _join, ("main",), _check_join, kinds=("a", "a", RAISING), topics=("in", "in2"))
TIMER = Shape("timer", _timer, ("main",), _check_timer, kinds=(GOOD,), is_timed=True)
WITH_STATE = (DEDUPE, STATEFUL, JOIN, TIMER)
