"""Where airports are, for the workers of Spark: read once for each upload, and kept while it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from examples.flights.distance import Point

MOST = 20  # uploads at a time; an airport takes about 200 bytes

_kept: dict[str, dict[str, Point]] = {}  # the upload that was asked for last is the last one


def points_of(upload: str, documents: Callable[[str], Iterable[dict[str, Any]]]) -> dict[str, Point]:
    """Latitude and longitude by code."""
    points = _kept.pop(upload, None)
    if points is None:
        points = {each["code"]: (each["latitude"], each["longitude"]) for each in documents(upload)}
    _kept[upload] = points
    if len(_kept) > MOST:
        del _kept[next(iter(_kept))]
    return points
