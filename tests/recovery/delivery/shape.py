"""What a graph under test is made of, and how what came out is held against what had to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.recovery.delivery.target import Child, Rows, Target

from towpath import Flow
from towpath.flow.delivery.ids import Strategy

GOOD, FILTERED, UNMET, RAISING, REFUSED, BROKEN = "good", "filtered", "unmet", "raising", "refused", "broken"
KINDS = (GOOD, GOOD, GOOD, FILTERED, RAISING, BROKEN)
COUNT = 18
ROUND = 6  # records that hold all kinds


@dataclass(frozen=True)
class Seen:
    """What is there after all attempts."""

    outputs: Mapping[str, Rows]
    failed: Counter[int]  # error records, by number of the record
    count: int  # how many numbers were sent, from 0 on
    forfeited: int = 0  # inputs that the ledger has given up


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
    repeats: bool = False  # whether the second sending has all of the first once more
    stages: int = 1
    is_first: bool = False  # whether the first batch of all dies
    is_remade: bool = False  # whether its topics are deleted and made again between the batches
    is_timed: bool = False  # whether what comes out comes in a batch of timers, after that of the records
    partitions: int = 2
    padding: int = 0  # bytes, so that a unit is cut into parts

    @property
    def has_failures(self) -> bool:
        """Whether something goes to the error topic."""
        return not {RAISING, BROKEN, REFUSED}.isdisjoint(self.kinds)

    def values(self, start: int, stop: int) -> list[tuple[int, bytes]]:
        """Numbers and texts of some records; of one kind each, in turn."""
        made = []
        for n in range(0 if self.repeats else start, stop):
            kind = self.kinds[n % len(self.kinds)]
            fits = '"no number"' if kind == REFUSED else "1"
            more = f', "padding": "{"x" * self.padding}"' if self.padding else ""
            text = f'{{"n": {n}, "kind": "{kind}", "fits": {fits}{more}}}' if kind != BROKEN else f'{{"n": {n},'
            made += [(n, text.encode())] * self.copies
        return made

    def numbers(self, seen: Seen, *kinds: str) -> set[int]:
        return {n for n in range(seen.count) if self.kinds[n % len(self.kinds)] in kinds}


def compared(
    what: str, found: Counter[Any], expected: Counter[Any], strategy: Strategy, forfeited: int = 0
) -> Iterator[str]:
    """What differs, as far as the strategy does not allow it. What at-most-once loses, the ledger must have told."""
    if foreign := sorted(set(found) - set(expected)):
        yield f"{what}: {foreign} were never to be there"
    lost = expected - found
    if strategy is not Strategy.AT_MOST_ONCE and lost:
        yield f"{what}: {sorted(lost.elements())} are lost"
    if inputs_of(lost) > forfeited and strategy is Strategy.AT_MOST_ONCE:
        yield f"{what}: {sorted(lost.elements())} are lost, and {forfeited} were told to be given up"
    if strategy is not Strategy.AT_LEAST_ONCE and (twice := sorted((found - expected).elements())):
        yield f"{what}: {twice} are there too often"


def inputs_of(lost: Counter[Any]) -> int:
    """How many inputs these children or numbers come from."""
    by_input: Counter[int] = Counter()
    for one, count in lost.items():
        n = one[0] if isinstance(one, tuple) else one
        by_input[n] = max(by_input[n], count)
    return by_input.total()


def once(numbers: set[int]) -> Counter[Child]:
    return Counter((n, 0) for n in numbers)


def families(what: str, rows: Rows, parents: set[int], seen: Seen, strategy: Strategy) -> Iterator[str]:
    """Each parent has one whole family. At-least-once may have a second one, whole or in part."""
    found = Counter((row["n"], row["child"]) for row in rows)
    sizes: dict[int, set[int]] = {n: {row["of"] for row in rows if row["n"] == n} for n in parents}
    if strange := sorted({row["n"] for row in rows if row["child"] >= row["of"]} | ({n for n, _ in found} - parents)):
        yield f"{what}: {strange} have children that were never born"
    if strategy is Strategy.AT_LEAST_ONCE:
        born = {(row["n"], row["of"], row["child"]) for row in rows}
        for n, sizes_of_n in sizes.items():
            if not any(born >= {(n, size, child) for child in range(size)} for size in sizes_of_n):
                yield f"{what}: no family of {n} is whole"
        return
    for n, sizes_of_n in sizes.items():
        if len(sizes_of_n) > 1:
            yield f"{what}: {n} has children of several families: {sizes_of_n}"
    expected = Counter((n, child) for n in parents for child in range(max(sizes[n], default=1)))
    yield from compared(what, found, expected, strategy, seen.forfeited)
