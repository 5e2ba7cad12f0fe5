"""Ranges of offsets, put over each other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from towpath.flow.positions import Range


def uncovered(whole: Range, covers: Iterable[Range]) -> Iterator[Range]:
    """The parts of a range that none of the others covers, in order."""
    at = whole.start
    for cover in sorted(each for each in covers if each.spot == whole.spot):
        if cover.start >= whole.stop:
            break
        if at < cover.start:
            yield whole._replace(start=at, stop=cover.start)
        at = max(at, cover.stop)
    if at < whole.stop:
        yield whole._replace(start=at)


def runs(topic: Range, offsets: Iterable[int]) -> list[Range]:
    """Offsets of a partition as ranges without holes."""
    found: list[Range] = []
    for offset in sorted(offsets):
        if found and found[-1].stop == offset:
            found[-1] = found[-1]._replace(stop=offset + 1)
        else:
            found.append(topic._replace(start=offset, stop=offset + 1))
    return found
