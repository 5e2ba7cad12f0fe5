"""Airports with their real coordinates, as the package `airportsdata` has them."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Airport(NamedTuple):
    """Its code is that of the IATA: three capital letters."""

    code: str
    name: str
    country: str
    latitude: float
    longitude: float


COLUMNS = Airport._fields
SCHEMA = "code string not null, name string, country string, latitude double not null, longitude double not null"


def all_airports() -> list[Airport]:
    """By code."""
    import airportsdata

    found = airportsdata.load("IATA").values()
    made = (Airport(each["iata"], each["name"], each["country"], each["lat"], each["lon"]) for each in found)
    return sorted(made)


def write_airports(path: Path, airports: Iterable[Airport]) -> None:
    """A CSV file with a header. Names may hold commas and quotes."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((*each[:3], repr(each.latitude), repr(each.longitude)) for each in airports)
