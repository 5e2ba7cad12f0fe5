"""How a stage went on lately: lag and rate over the last hour, and how fast it moves in each partition. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

EVERY_S = 30.0  # from one point to the next
MOST_POINTS = 120

K = TypeVar("K")


class LagPoint(NamedTuple):
    """The highest lag since the point before, and the rate at its end. `at` is seconds since 1970."""

    at: int
    lag: int
    rate: float


class LagHistory:
    """Points of the last hour. It goes on over restarts, since a stage's row has it."""

    def __init__(self, stored: Iterable[Sequence[Any]] = ()) -> None:
        self._points = deque((LagPoint(*each) for each in stored), MOST_POINTS)
        self._highest = 0
        self._kept_at: float | None = None

    def see(self, lag: int, rate: float, now: float, clock: Callable[[], float]) -> None:
        """`now` is the time by which points are spaced, `clock` the one that they are given."""
        self._highest = max(self._highest, lag)
        if self._kept_at is None or now - self._kept_at >= EVERY_S:
            self._points.append(LagPoint(int(clock()), self._highest, rate))
            self._highest, self._kept_at = lag, now

    def stored(self) -> list[list[float]]:
        """For the row."""
        return [list(point) for point in self._points]


def lag_points(sample: Mapping[str, Any]) -> list[LagPoint]:
    """What the row of a stage tells of the last hour, the oldest first."""
    return [LagPoint(*each) for each in sample.get("history", ())]


class Speeds(Generic[K]):
    """Offsets a second, by what moves, over a window."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._seen: deque[tuple[float, dict[K, int]]] = deque()

    def see(self, positions: Mapping[K, int], now: float) -> None:
        self._seen.append((now, dict(positions)))
        while len(self._seen) > 2 and now - self._seen[1][0] >= self._window_s:
            self._seen.popleft()

    def of(self, key: K) -> float:
        """0.0 until it was seen twice; a position that was moved back has no speed."""
        if len(self._seen) < 2:
            return 0.0
        (begin, first), (end, last) = self._seen[0], self._seen[-1]
        if key not in first or key not in last or end <= begin:
            return 0.0
        return round(max(0, last[key] - first[key]) / (end - begin), 1)
