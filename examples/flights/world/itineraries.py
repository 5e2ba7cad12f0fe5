"""Itineraries that a seed decides: from a thousand to several million, at about half a million a second."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
from examples.flights.itinerary import BETWEEN_STOPS, COLUMNS
from examples.flights.world.airport import Airport
from examples.flights.world.amounts import Amounts
from examples.flights.world.malformed import malformed_line

AIRPORTS = 120  # that flights go to; clients send the coordinates of all
STOPS = {0: 0.2, 1: 0.33, 2: 0.25, 3: 0.13, 4: 0.06, 5: 0.03}
MANY_STOPS = 3
SHORTEST = 30  # minutes, of those that are tied
OUT_OF_ORDER = 50  # ids come in their order but for so many at a time
LATEST = 20_000  # so many rows later a duplicate comes at most
BLOCK = 50_000

Column = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class _Places:
    """Which rows are special. They are three apart, because a tie takes three."""

    duplicates: Column
    implausible: Column
    unknown: Column
    ties: Column

    @classmethod
    def drawn(cls, draw: np.random.Generator, amounts: Amounts) -> _Places:
        counts = (amounts.duplicates, amounts.implausible, amounts.unknown, amounts.ties)
        chosen = 3 * draw.choice(max(1, amounts.rows // 3), sum(counts), replace=False)
        return cls(*np.split(chosen, np.cumsum(counts)[:-1]))


def itinerary_lines(seed: int, amounts: Amounts, airports: Sequence[Airport]) -> Iterator[bytes]:
    """Blocks of whole lines, without a header."""
    draw = np.random.default_rng(seed)
    places = _Places.drawn(draw, amounts)
    columns = _columns(draw, amounts, places, airports)
    extra = _extra_lines(draw, amounts, places, columns)
    for first in range(0, max(amounts.rows, 1), BLOCK):
        block = zip(*(column[first : first + BLOCK].tolist() for column in columns), strict=True)
        lines = ["%d,%s,%s,%s,%d,%d\n" % row for row in block]  # noqa: UP031 - twice as fast
        inside = sorted(row for row in extra if first <= row < first + BLOCK)
        yield _with_extra(lines, inside, extra, first)


def write_itineraries(path: Path, seed: int, amounts: Amounts, airports: Sequence[Airport]) -> None:
    """A CSV file with a header."""
    with path.open("wb") as file:
        file.write(",".join(COLUMNS).encode() + b"\n")
        file.writelines(itinerary_lines(seed, amounts, airports))


def _with_extra(lines: list[str], inside: Sequence[int], extra: dict[int, list[bytes]], first: int) -> bytes:
    """The lines of a block, with what comes after some of them."""
    parts: list[bytes] = []
    done = 0
    for row in inside:
        parts.append("".join(lines[done : row - first + 1]).encode())
        parts += extra[row]
        done = row - first + 1
    parts.append("".join(lines[done:]).encode())
    return b"".join(parts)


def _columns(
    draw: np.random.Generator, amounts: Amounts, places: _Places, airports: Sequence[Airport]
) -> tuple[Column, ...]:
    """Id, origin, destination, stops, duration and fare of all rows."""
    rows, size = amounts.rows, min(AIRPORTS, len(airports))
    known = sorted(airport.code for airport in airports)
    codes = np.array([known[at] for at in sorted(draw.choice(len(known), size, replace=False))], dtype=object)
    origin = draw.integers(size, size=rows)
    destination = (origin + 1 + draw.integers(size - 1, size=rows)) % size
    counts = draw.choice(list(STOPS), size=rows, p=list(STOPS.values()))
    duration = 40 + 45 * counts + draw.integers(900, size=rows)
    for tied in (places.ties + 1, places.ties + 2):
        origin[tied], destination[tied] = origin[places.ties], destination[places.ties]
    for tied in (places.ties, places.ties + 1, places.ties + 2):
        counts[tied], duration[tied] = np.maximum(counts[tied], MANY_STOPS), SHORTEST
    duration[places.implausible] = 0
    stops = _stops(draw, counts, codes)
    stops[places.unknown] += BETWEEN_STOPS + draw.choice(_unknown_codes(known), size=len(places.unknown))
    fare = 2_000 + (draw.exponential(40_000, size=rows)).astype(np.int64)
    return _ids(draw, rows), codes[origin], codes[destination], _trimmed(stops, places.unknown), duration, fare


def _ids(draw: np.random.Generator, rows: int) -> Column:
    """From 1 on, in their order but for a few that have changed places: the smaller id need not come first."""
    numbers = np.arange(rows)
    return 1 + np.argsort(numbers // OUT_OF_ORDER + 0.99 * draw.random(rows))


def _stops(draw: np.random.Generator, counts: Column, codes: Column) -> Column:
    """Texts with so many codes each."""
    texts = np.full(len(counts), "", dtype=object)
    for number in range(max(STOPS)):
        more = np.flatnonzero(counts > number)
        texts[more] += (BETWEEN_STOPS if number else "") + codes[draw.integers(len(codes), size=len(more))]
    return texts


def _trimmed(stops: Column, places: Column) -> Column:
    """An itinerary that had no stop before it got an unknown one begins with none too many."""
    stops[places] = [text.lstrip(BETWEEN_STOPS) for text in stops[places]]
    return stops


def _unknown_codes(known: Sequence[str]) -> list[str]:
    taken = set(known)
    return [code for letter in ascii_uppercase for code in (f"QZ{letter}", f"ZQ{letter}") if code not in taken]


def _extra_lines(
    draw: np.random.Generator, amounts: Amounts, places: _Places, columns: tuple[Column, ...]
) -> dict[int, list[bytes]]:
    """Malformed lines and duplicates, by the row that they come after."""
    extra: dict[int, list[bytes]] = defaultdict(list)
    for number, row in enumerate(draw.integers(max(1, amounts.rows), size=amounts.malformed).tolist()):
        # An id of its own, above all others: were it taken, it would be seen in the results.
        extra[row].append(malformed_line(number, amounts.rows + 1 + number))
    waits = draw.integers(LATEST, size=amounts.duplicates).tolist()
    for number, (row, wait) in enumerate(zip(places.duplicates.tolist(), waits, strict=True)):
        id, origin, destination, stops, duration, fare = (column[row] for column in columns)
        line = b"%d,%s,%s,%s,%d,%d\n" % (
            *(id, origin.encode(), destination.encode(), stops.encode()),
            *(duration, fare + number % 2),
        )
        extra[min(amounts.rows - 1, row + wait)].append(line)
    return extra
