"""The records of the source: what kind each is of, and how it looks."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from enum import StrEnum


class Kind(StrEnum):
    """What must become of a record."""

    GOOD = "good"  # children in the table and in the output topic
    FILTERED = "filtered"  # nothing
    RAISING = "raising"  # an error in the first stage: its function raises
    BROKEN = "broken"  # an error in the first stage: it is no JSON
    REFUSED = "refused"  # children, each of them an error of the last stage: the table does not take them


_IN_TWENTY = [Kind.GOOD] * 15 + [Kind.FILTERED] * 2 + [Kind.RAISING, Kind.BROKEN, Kind.REFUSED]


def values(seed: int) -> Iterator[tuple[int, bytes]]:
    """Numbers and texts, without end."""
    chance = random.Random(seed)
    number = 0
    while True:
        kind = chance.choice(_IN_TWENTY)
        text = json.dumps({"n": number, "kind": kind, "fits": "no number" if kind is Kind.REFUSED else number})
        yield number, text[: -1 if kind is Kind.BROKEN else None].encode()
        number += 1


def kind_of(value: bytes) -> Kind:
    """Of a record of the source, by its text alone."""
    try:
        return Kind(json.loads(value)["kind"])
    except ValueError:
        return Kind.BROKEN
