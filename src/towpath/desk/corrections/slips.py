"""Typing slips: how many of them lie between two texts, and which known values a text may have been meant to be."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

ONE_SLIP_FROM = 4  # characters that a value must have before one slip in it is believed
TWO_SLIPS_FROM = 8

_NO_DIGIT = re.compile(r"\D+")
_LOOSE = re.compile(r"[\s_\-./]+")


@dataclass(frozen=True, slots=True)
class Near:
    """A known value, and by how many slips a text differs from it; 0: in case, accents or spaces only."""

    value: str
    slips: int


@lru_cache(maxsize=1 << 16)
def folded(text: str) -> str:
    """The text without what people do not care about: case, accents, spaces and dashes."""
    bare = "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    return _LOOSE.sub("", bare).casefold()


def slips_between(one: str, other: str, most: int) -> int:
    """Letters that are wrong, missing, too many or swapped with their neighbour; more than `most` is `most` + 1."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, above, row = row, before, [at]
        for place, wanted in enumerate(other, 1):
            cost = min(before[place] + 1, row[place - 1] + 1, before[place - 1] + (letter != wanted))
            is_swapped = at > 1 and place > 1 and letter == other[place - 2] and one[at - 2] == wanted
            row.append(min(cost, above[place - 2] + 1) if is_swapped else cost)
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)


def allowed_slips(text: str) -> int:
    """How many slips are believed in a text of this length."""
    return 2 if len(text) >= TWO_SLIPS_FROM else 1 if len(text) >= ONE_SLIP_FROM else 0


def nearest(text: str, known: Iterable[str]) -> list[Near]:
    """The known values that the text may have been meant to be, the nearest first.

    One more slip than is believed is looked for, so that it shows how near the next one is. Digits are never a slip:
    `A-101` is as good a value as `A-110`.
    """
    bare, found = folded(text), []
    digits = _NO_DIGIT.sub("", text)
    for value in known:
        if _NO_DIGIT.sub("", value) != digits:
            continue
        most = allowed_slips(value) + 1
        slips = slips_between(bare, folded(value), most)
        if slips <= most:
            found.append(Near(value, slips))
    return sorted(found, key=lambda near: (near.slips, near.value))
