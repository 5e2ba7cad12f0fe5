"""What batches count, as numbers: every record that was read was loaded, filtered, has failed, or is in a place that
only stages with state have, or crashes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from towpath.flow.place import BY_BATCH

NAMES = ("read", "loaded", "filtered", "failed")
RARE = tuple(str(place) for place in BY_BATCH if place not in NAMES)


def counts_of(totals: Mapping[str, Any]) -> dict[str, int]:
    """Read, loaded, filtered, failed, and what there is in rarer places, each as one number."""
    found = {name: totals.get(name, 0) for name in (*NAMES, *RARE) if name in NAMES or totals.get(name)}
    return {name: value if isinstance(value, int) else sum(value.values()) for name, value in found.items()}


def names_of(several: Iterable[Mapping[str, int]]) -> tuple[str, ...]:
    """The columns of a table of counts: those that there always are, and the rarer ones that one of them has."""
    there = {name for counts in several for name in counts}
    return (*NAMES, *(name for name in RARE if name in there))
