"""Itineraries with all that sellers of flights write into them: lines about twelve times as long as the example's."""

from __future__ import annotations

import random
from pathlib import Path

COLUMNS = ("fare_basis", "airlines", "departures", "arrivals", "equipment", "cabins", "seats", "is_refundable")
SCHEMA = (
    "fare_basis string, airlines string, departures string, arrivals string, equipment string, cabins string, "
    "seats int, is_refundable boolean"
)
AIRLINES = ("Aerolineas Argentinas", "Iberia", "LATAM Airlines", "Lufthansa", "Air France", "Ethiopian Airlines")
EQUIPMENT = ("Airbus A320", "Boeing 737-800", "Airbus A350-900", "Embraer 190", "Boeing 787")
CABINS = ("coach", "premium coach", "business")
LEGS = 4
DIFFERENT = 1_000  # ends of lines, in turn


def write_wide(narrow: Path, wide: Path, seed: int) -> None:
    """The lines of a file of itineraries, each with such an end."""
    draw = random.Random(seed)  # noqa: S311
    ends = [_end(draw) for _ in range(DIFFERENT)]
    with narrow.open("rb") as lines, wide.open("wb") as file:
        file.write(next(lines).rstrip(b"\n") + b"," + ",".join(COLUMNS).encode() + b"\n")
        file.writelines(line.rstrip(b"\n") + ends[number % DIFFERENT] for number, line in enumerate(lines))


def _end(draw: random.Random) -> bytes:
    days = [f"2026-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}" for _ in range(LEGS)]
    cells = [
        "".join(draw.choices("ABCDEFGHKLMNQRSTVXYZ0123456789", k=8)),
        "||".join(draw.choices(AIRLINES, k=LEGS)),
        *("||".join(f"{day}T{draw.randint(0, 23):02d}:{draw.randint(0, 59):02d}:00.000" for day in days) for _ in "da"),
        *("||".join(draw.choices(names, k=LEGS)) for names in (EQUIPMENT, CABINS)),
        *(str(draw.randint(0, 9)), draw.choice(("true", "false"))),
    ]
    return ("," + ",".join(cells) + "\n").encode()
