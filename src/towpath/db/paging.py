"""Pages of lists that no index can filter, newest first: a search that stops after a time and says how far it came.

A list that is filtered by something rare would otherwise be read from end to end for one page, however many million
rows it has. So a page may hold fewer rows than asked for, even none, and still have a `next`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from towpath.core.clock import MICROS

LAST_SEQ = (1 << 63) - 1
STRETCH = 20_000  # numbers that are looked through at once, in the beginning
LONGEST_STRETCH = 16 * STRETCH
LOOK_S = 0.15  # how long one page looks
# By how much numbers and times may differ in their order: several processes write at once, and clocks are set.
SLACK_US = 60 * MICROS


class HasSeq(Protocol):
    """A row of a list."""

    @property
    def seq(self) -> int:
        """By what pages are cut."""


T = TypeVar("T", bound=HasSeq)


@dataclass(frozen=True, slots=True)
class SearchPage(Generic[T]):
    """One page; `next` is the `before` of the page behind it. None: this is the last one."""

    items: list[T]
    next: int | None


Read = Callable[[int, int, int], list[T]]  # matching rows below one number and from another on; how many at most


def search(
    read: Read[T],
    newest_below: Callable[[int], int | None],
    *,
    limit: int,
    before: int | None = None,
    lowest: int = 0,
    look_s: float = LOOK_S,
    clock: Callable[[], float] = time.monotonic,
) -> SearchPage[T]:
    """One page from `before` down to `lowest`, stretch by stretch; longer ones where there is little to read.

    `newest_below` says where the next row is, so that no time is lost where many were deleted.
    """
    found: list[T] = []
    top, size, begun = LAST_SEQ if before is None else before, STRETCH, clock()
    while (newest := newest_below(top)) is not None and newest >= lowest:
        floor, round_begun = max(newest + 1 - size, lowest), clock()
        found += read(newest + 1, floor, limit + 1 - len(found))
        if len(found) > limit:
            return cut(found, limit)
        now = clock()
        if now - begun >= look_s and floor > lowest:
            return SearchPage(found, floor)
        if now - round_begun < look_s / 8:
            size = min(2 * size, LONGEST_STRETCH)
        top = floor
    return SearchPage(found, None)


def cut(found: list[T], limit: int) -> SearchPage[T]:
    """A page of what was asked for with one more than `limit`."""
    return SearchPage(found[:limit], found[limit - 1].seq if len(found) > limit else None)
