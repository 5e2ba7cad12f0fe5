"""Numbers as people write them, and all values that one text may mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache

TEXT_CHARACTERS = 40

# A sign or word of a currency or unit may stand on one side.
_TEXT = re.compile(
    r"(?P<before>[€$£¥]|[A-Z]{3})?\s*(?P<sign>[-+−])?\s*(?P<digits>\d[\d.,'   ]*)\s*(?P<after>[€$£¥%]|[A-Za-z]{1,3})?",
    re.ASCII,
)
_PLAIN = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_GROUPS = " '  "  # which only divide thousands


@dataclass(frozen=True, slots=True)
class Amount:
    """One way to read a text as a number."""

    value: Decimal
    mark: str  # before the decimals: "." or ","; "": it has none
    has_word: bool  # a currency or unit stands beside it

    @property
    def decimals(self) -> int:
        return max(0, -int(self.value.as_tuple().exponent))


@lru_cache(maxsize=8192)
def amounts(text: str) -> tuple[Amount, ...]:
    """All ways to read a text as a number; none if it is not one."""
    text = text.strip()
    if len(text) > TEXT_CHARACTERS:
        return ()
    found = _TEXT.fullmatch(text)
    if not found or (found["before"] and found["after"]):
        return ()
    has_word = bool(found["before"] or found["after"])
    sign = -1 if found["sign"] in ("-", "−") else 1
    values = dict.fromkeys(_read(found["digits"].strip()))
    return tuple(Amount(sign * value, mark, has_word) for value, mark in values)


def _read(digits: str) -> Iterator[tuple[Decimal, str]]:
    for mark in (".", ",", ""):
        whole, found, decimals = digits.rpartition(mark) if mark else (digits, "", "")
        if mark and (not found or not decimals.isdigit() or mark in whole):
            continue
        for value in _grouped(whole, mark):
            yield Decimal(f"{value}.{decimals}") if decimals else Decimal(value), mark


def _grouped(whole: str, mark: str) -> Iterator[str]:
    """The digits before the decimals, without what divides them into thousands, if it does so as it should."""
    if whole.isdigit():
        yield whole
        return
    dividers = {each for each in whole if not each.isdigit()}
    if len(dividers) != 1 or dividers & {mark}:
        return
    first, *rest = whole.split(dividers.pop())
    if first.isdigit() and len(first) <= 3 and all(len(each) == 3 and each.isdigit() for each in rest):
        yield first + "".join(rest)


def is_plain(text: str) -> bool:
    """Whether a text is a number as JSON would have it."""
    return bool(_PLAIN.fullmatch(text.removeprefix("-")))


def decimal_of(value: object) -> Decimal | None:
    """The number that a value is, or that its text plainly is."""
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, int | float):
            return Decimal(repr(value))
        return Decimal(value) if isinstance(value, str) and is_plain(value) else None
    except InvalidOperation:
        return None
