"""The four queries: their names, the columns of their answers, and the numbers in their rules."""

from __future__ import annotations

STOPS, DETOURS, FASTEST, FARES = "stops", "detours", "fastest", "fares"
STOPS_AT_LEAST = 3
MOST_FAST = 2  # of each route

COLUMNS = {
    STOPS: ("id", "origin", "destination", "stops", "duration", "fare"),
    DETOURS: ("id", "origin", "destination", "stops", "km", "direct_km"),
    FASTEST: ("origin", "destination", "id", "stops", "duration"),
    FARES: ("origin", "destination", "mean", "highest"),
}
QUERIES = tuple(COLUMNS)
