"""Distances on the earth, by the haversine formula. The order of the operations is fixed: so are all bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import asin, cos, radians, sin, sqrt

EARTH_KM = 6371.0088
DETOUR = 4  # a detour is more than so many times as long as the direct way

Point = tuple[float, float]  # latitude and longitude, in degrees


def between(one: Point, other: Point) -> float:
    """Kilometres."""
    latitude, other_latitude = radians(one[0]), radians(other[0])
    north = sin((other_latitude - latitude) / 2.0)
    east = sin((radians(other[1]) - radians(one[1])) / 2.0)
    square = north * north + cos(latitude) * cos(other_latitude) * east * east
    return 2.0 * EARTH_KM * asin(min(1.0, sqrt(square)))


def along(path: Sequence[Point]) -> float:
    """Kilometres of all legs, added up from the first to the last."""
    total = 0.0
    for one, other in pairwise(path):
        total += between(one, other)
    return total


def detour(path: Sequence[Point]) -> tuple[float, float] | None:
    """Kilometres of the whole way and of the direct one, where the first is over four times the second."""
    total, direct = along(path), between(path[0], path[-1])
    return (total, direct) if total > DETOUR * direct else None


def unknown(path: Sequence[str], airports: Mapping[str, Point]) -> list[str]:
    """Codes that nobody has sent coordinates for, each once, in the order of the way."""
    return list(dict.fromkeys(code for code in path if code not in airports))
