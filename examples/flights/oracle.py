"""What the answers must be, in one process of plain Python: no Spark, no Towpath, no rounding.

The rules: a line that does not fit the columns is refused. Of the lines with one id the first counts, whatever is in
the others. An itinerary that takes no time, or costs less than nothing, takes no part in any query. One with an airport
that nobody sent coordinates for takes no part in the query about detours.
"""

from __future__ import annotations

import csv
import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from examples.flights.distance import Point, detour, unknown
from examples.flights.itinerary import COLUMNS, Itinerary, path_of
from examples.flights.money import is_above_mean, mean_text
from examples.flights.queries import DETOURS, FARES, FASTEST, MOST_FAST, STOPS, STOPS_AT_LEAST

Row = tuple[str | int, ...]
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,18})")
_WIDEST = {"id": 2**63 - 1, "duration": 2**31 - 1, "fare": 2**63 - 1}


@dataclass
class Read:
    """The lines of a file, by what became of them."""

    good: list[Itinerary] = field(default_factory=list)
    refused: int = 0
    duplicates: int = 0
    implausible: int = 0


@dataclass
class Answers:
    """Rows by query, in no order that counts, and how many itineraries could not be placed on the earth."""

    rows: dict[str, list[Row]]
    unplaced: int


def answers(airports: Mapping[str, Point], itineraries: Sequence[Itinerary]) -> Answers:
    """All four of an upload."""
    detours, unplaced = _detours(airports, itineraries)
    many = [each for each in itineraries if each.stop_count >= STOPS_AT_LEAST]
    rows: dict[str, list[Row]] = {
        STOPS: [tuple(each) for each in many],
        DETOURS: detours,
        FASTEST: _fastest(many),
        FARES: _fares(itineraries),
    }
    return Answers(rows, unplaced)


def _detours(airports: Mapping[str, Point], itineraries: Iterable[Itinerary]) -> tuple[list[Row], int]:
    rows: list[Row] = []
    unplaced = 0
    for each in itineraries:
        path = path_of(each._asdict())
        if unknown(path, airports):
            unplaced += 1
        elif found := detour([airports[code] for code in path]):
            rows.append((each.id, *each.route, each.stops, round(found[0]), round(found[1])))
    return rows, unplaced


def _fastest(many: Iterable[Itinerary]) -> list[Row]:
    by_route: dict[tuple[str, str], list[Itinerary]] = defaultdict(list)
    for each in many:
        by_route[each.route].append(each)
    fastest = {
        route: heapq.nsmallest(MOST_FAST, found, key=lambda each: (each.duration, each.id))
        for route, found in by_route.items()
    }
    return [(*route, each.id, each.stops, each.duration) for route, found in fastest.items() for each in found]


def _fares(itineraries: Sequence[Itinerary]) -> list[Row]:
    total, count = sum(each.fare for each in itineraries), len(itineraries)
    by_route: dict[tuple[str, str], list[int]] = defaultdict(list)
    for each in itineraries:
        if is_above_mean(each.fare, total, count):
            by_route[each.route].append(each.fare)
    return [(*route, mean_text(sum(fares), len(fares)), max(fares)) for route, fares in by_route.items()]


def read_itineraries(path: Path) -> Read:
    with path.open("rb") as file:
        next(file, None)  # the header
        return read_lines(file)


def read_lines(lines: Iterable[bytes]) -> Read:
    found, seen = Read(), Counter[int]()
    for line in lines:
        itinerary = _read(line)
        if itinerary is None:
            found.refused += 1
            continue
        seen[itinerary.id] += 1
        if seen[itinerary.id] > 1:
            found.duplicates += 1
        elif not itinerary.is_plausible:
            found.implausible += 1
        else:
            found.good.append(itinerary)
    return found


def _read(line: bytes) -> Itinerary | None:
    """None: it does not fit the columns."""
    try:
        cells = next(csv.reader(StringIO(line.decode("utf-8"), newline=""), strict=True), [])
    except (UnicodeDecodeError, csv.Error):
        return None
    if len(cells) != len(COLUMNS) or not all(_is_whole(cells[at], COLUMNS[at]) for at in (0, 4, 5)):
        return None
    id, origin, destination, stops, duration, fare = cells
    return Itinerary(int(id), origin, destination, stops, int(duration), int(fare))


def _is_whole(text: str, column: str) -> bool:
    return bool(_WHOLE.fullmatch(text)) and -_WIDEST[column] - 1 <= int(text) <= _WIDEST[column]


def read_airports(path: Path) -> dict[str, Point]:
    with path.open(encoding="utf-8", newline="") as file:
        return {row["code"]: (float(row["latitude"]), float(row["longitude"])) for row in csv.DictReader(file)}
