"""One itinerary: where from, where to, by which stops, how long and for how much."""

from __future__ import annotations

from typing import Any, NamedTuple

BETWEEN_STOPS = "|"
COLUMNS = ("id", "origin", "destination", "stops", "duration", "fare")
SCHEMA = (
    "id bigint not null, origin string not null, destination string not null, stops string, "
    "duration int not null, fare bigint not null"
)
# What a line has to meet beyond that, by name. The flow says it to Spark; the oracle says it in Python.
RULES = {"a flight takes time": "duration > 0", "a fare is not negative": "fare >= 0"}


class Itinerary(NamedTuple):
    """`stops` are the airports between, `EZE|SCL|LIM`; `duration` is in minutes and `fare` in cents."""

    id: int
    origin: str
    destination: str
    stops: str
    duration: int
    fare: int

    @property
    def stop_count(self) -> int:
        return count_stops(self.stops)

    @property
    def route(self) -> tuple[str, str]:
        return self.origin, self.destination

    @property
    def is_plausible(self) -> bool:
        return self.duration > 0 and self.fare >= 0


def count_stops(stops: str) -> int:
    return stops.count(BETWEEN_STOPS) + 1 if stops else 0


def path_of(itinerary: dict[str, Any]) -> list[str]:
    """All airports of an itinerary, in the order in which they are met."""
    stops = itinerary["stops"]
    between = stops.split(BETWEEN_STOPS) if stops else []
    return [itinerary["origin"], *between, itinerary["destination"]]
