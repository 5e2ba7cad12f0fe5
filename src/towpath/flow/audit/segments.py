"""The offsets of a stage, cut where a batch begins or ends: every part has the same batches. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from towpath.flow.audit.batch_row import BatchRow
from towpath.flow.positions import Range, Spot


@dataclass(frozen=True, slots=True)
class Segment:
    """A part. `owners` are places in the list of batches: those that are committed and have read it."""

    place: Range
    owners: tuple[int, ...]
    readings: int  # how many batches have read it, also those that were given up or are at work


def segments_of(
    batches: list[BatchRow], beyond: Iterable[Range], returned: Iterable[tuple[Range, int]] = ()
) -> list[Segment]:
    """The parts of all that was read, and `beyond` it what may be read at this moment.

    `returned` is what came back, where it was read for the first time, and the batch that has read it again.
    """
    readings: dict[Spot, list[tuple[Range, int | None]]] = {}
    for number, batch in enumerate(batches):
        for place in batch.ranges:
            readings.setdefault(place.spot, []).append((place, number if batch.is_committed else None))
    for place, number in returned:
        readings.setdefault(place.spot, []).append((place, number if batches[number].is_committed else None))
    for place in beyond:
        if not place.is_empty:
            readings.setdefault(place.spot, []).append((place, None))
    return [segment for found in readings.values() for segment in _cut(found)]


def _cut(readings: list[tuple[Range, int | None]]) -> list[Segment]:
    edges = sorted({edge for place, _ in readings for edge in (place.start, place.stop)})
    owners: list[list[int | None]] = [[] for _ in edges]
    for place, number in readings:
        for at in range(bisect_left(edges, place.start), bisect_left(edges, place.stop)):
            owners[at].append(number)
    template = readings[0][0]
    return [
        Segment(
            template._replace(start=edges[at], stop=edges[at + 1]),
            tuple(number for number in found if number is not None),
            len(found),
        )
        for at, found in enumerate(owners)
        if found
    ]
