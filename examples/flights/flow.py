"""Itineraries of many clients at once in, four answers for each of them out.

Two answers come while data comes in, two when an upload has ended. What is no itinerary is a case on the desk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from examples.flights.distance import detour, unknown
from examples.flights.itinerary import RULES, count_stops, path_of
from examples.flights.itinerary import SCHEMA as ITINERARY
from examples.flights.lookup import points_of
from examples.flights.queries import COLUMNS, STOPS_AT_LEAST
from examples.flights.spark_queries import MANY_STOPS, fares_of, fastest_of
from examples.flights.world.airport import SCHEMA as AIRPORT

from towpath import Flow, collect, result, topic
from towpath.flow.stateful import Dedupe, field, header

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

flow = Flow("flights")
UPLOAD = "upload string not null"  # which the gateway puts into every record

# Airports are kept for the itineraries of the same upload, which the gateway takes when these have come to their end.
airports = collect("airports", schema=AIRPORT)
flow.load(flow.source(topic("flights.airports"), schema=f"{UPLOAD}, {AIRPORT}"), airports, name="airports")

# Of an upload each id counts once, however far apart its lines are. Ids come nearly in order, so that all that were
# seen are a few stretches of numbers.
once = Dedupe(sender=header("upload"), sequence=field("id"), window=10**15, forget_after_s=7 * 86_400)
lines = flow.source(
    topic("flights.itineraries", dedupe=once), schema=f"{UPLOAD}, {ITINERARY}", expect=RULES, name="lines"
)


@flow.each(lines, outputs=("all", "stops", "detours", "unplaced"))
def answered(itinerary: dict[str, Any]) -> dict[str, Any]:
    """One look at each: what can be answered now is answered, and all are kept for the end of the upload."""
    found = {"all": itinerary}
    if count_stops(itinerary["stops"]) >= STOPS_AT_LEAST:
        found["stops"] = itinerary
    points, path = points_of(itinerary["upload"], airports.documents), path_of(itinerary)
    if missing := unknown(path, points):
        found["unplaced"] = {**itinerary, "unknown": ", ".join(missing)}
    elif way := detour([points[code] for code in path]):
        found["detours"] = measured(itinerary, way)
    return found


def measured(itinerary: dict[str, Any], way: tuple[float, float]) -> dict[str, Any]:
    about = {name: itinerary[name] for name in ("upload", "id", "origin", "destination", "stops")}
    return {**about, "km": round(way[0]), "direct_km": round(way[1])}


flow.load(answered["stops"], result("stops", columns=COLUMNS["stops"]), name="stops")
flow.load(answered["detours"], result("detours", columns=COLUMNS["detours"]), name="detours")
flow.load(answered["all"], collect("itineraries", schema=ITINERARY), name="itineraries")
flow.load(answered["unplaced"], topic("flights.unplaced", partitions=1), name="unplaced")

# A record that fails, fails in all outputs of its stage. An unknown airport is to fail in one query only: so it goes to
# a stage of its own, and fails there. Who mends its codes at the desk empties `unknown`, too.
unplaced = flow.source(
    topic("flights.unplaced"),
    schema=f"{UPLOAD}, {ITINERARY}, unknown string not null",
    expect={"its airports are known": "unknown = ''"},
    name="unplaced",
)


@flow.each(unplaced)
def placed(itinerary: dict[str, Any]) -> dict[str, Any] | None:
    points, path = points_of(itinerary["upload"], airports.documents), path_of(itinerary)
    if missing := unknown(path, points):
        raise LookupError(f"airports that nobody knows: {', '.join(missing)}")
    way = detour([points[code] for code in path])
    return None if way is None else measured(itinerary, way)


flow.load(placed, result("detours", columns=COLUMNS["detours"]), name="detours, mended")


@flow.at_end(
    "flights", result="fastest", collected=("itineraries",), order_by=("origin", "destination", "duration", "id")
)
def fastest(itineraries: DataFrame) -> DataFrame:
    return fastest_of(itineraries.where(MANY_STOPS))


@flow.at_end("flights", result="fares", collected=("itineraries",), order_by=("origin", "destination"))
def fares(itineraries: DataFrame) -> DataFrame:
    return fares_of(itineraries)
