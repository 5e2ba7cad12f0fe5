"""Dates in the layouts that people write, and all days that one text may mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

# Years that a record may be about. What is outside is some other number.
FIRST_YEAR, LAST_YEAR = 1900, 2099
TEXT_CHARACTERS = 40

_TEXT = re.compile(
    r"(?P<a>\d{1,4})(?P<s>[-/. ])(?P<b>\d{1,2}|[A-Za-z]{3,9})(?P=s)(?P<c>\d{1,4})(?P<t>[T ]\d{2}:\d{2}\S*)?",
    re.ASCII,
)
_TIGHT = re.compile(r"\d{8}", re.ASCII)
_DIGIT = re.compile(r"\d")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# Where year, month and day stand.
_ORDERS = {"ymd": (0, 1, 2), "dmy": (2, 1, 0), "mdy": (2, 0, 1)}


@dataclass(frozen=True, slots=True)
class Layout:
    """How a day is written: the order of its parts, what stands between them, what follows."""

    order: str  # ymd, dmy or mdy
    separator: str
    year_digits: int
    month: str  # "number" or "name"
    time: str  # the shape of what follows the day: "", "T99:99:99Z"

    @property
    def text(self) -> str:
        return "|".join(("date", self.order, self.separator, str(self.year_digits), self.month, self.time))

    @classmethod
    def of_text(cls, text: str) -> Layout:
        _, order, separator, digits, month, time = text.split("|")
        return cls(order, separator, int(digits), month, time)

    @property
    def family(self) -> str:
        """What shows in a text of it without saying whether day or month comes first."""
        return f"{'y' if self.order == 'ymd' else 'x'}{self.separator}{self.year_digits}"

    def write(self, day: date, *, is_padded: bool = True) -> str:
        """The day in this layout."""
        width = 2 if is_padded or not self.separator else 1
        month = _MONTHS[day.month - 1].title() if self.month == "name" else f"{day.month:0{width}d}"
        parts = {"y": f"{day.year:04d}"[-self.year_digits :], "m": month, "d": f"{day.day:0{width}d}"}
        return self.separator.join(parts[each] for each in self.order)


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a text as a day."""

    day: date
    layout: Layout
    time: str = ""  # what follows the day, as it stands
    width: str | None = None  # "padded" (01) or "bare" (1), where it shows


@lru_cache(maxsize=8192)
def readings(text: str) -> tuple[Reading, ...]:
    """All ways to read a text as a day; none if it is no date."""
    text = text.strip()
    if len(text) > TEXT_CHARACTERS:
        return ()
    if _TIGHT.fullmatch(text):
        return tuple(_read_tight(text))
    found = _TEXT.fullmatch(text)
    return tuple(_read(found)) if found else ()


def _read_tight(text: str) -> Iterator[Reading]:
    for order, parts in (("ymd", (text[:4], text[4:6], text[6:])), ("dmy", (text[4:], text[2:4], text[:2]))):
        if day := _day(*parts):
            yield Reading(day, Layout(order, "", 4, "number", ""))


def _read(found: re.Match[str]) -> Iterator[Reading]:
    parts, time = (found["a"], found["b"], found["c"]), found["t"] or ""
    for order, (y, m, d) in _ORDERS.items():
        year, month, day = parts[y], parts[m], parts[d]
        if not _may_be(year, month, day):
            continue
        if read := _day(year, month, day):
            named = "number" if month.isdigit() else "name"
            layout = Layout(order, found["s"], len(year), named, _DIGIT.sub("9", time))
            yield Reading(read, layout, time, _width(month, day))


def _may_be(year: str, month: str, day: str) -> bool:
    """Whether the parts are of the lengths that year, month and day have."""
    if not (year.isdigit() and len(year) in (2, 4) and day.isdigit() and len(day) <= 2):
        return False
    return len(month) <= 2 if month.isdigit() else month[:3].lower() in _MONTHS


def _width(month: str, day: str) -> str | None:
    numbers = [part for part in (month, day) if part.isdigit()]
    if any(len(part) == 1 for part in numbers):
        return "bare"
    return "padded" if any(part.startswith("0") for part in numbers) else None


def _day(year: str, month: str, day: str) -> date | None:
    try:
        number = int(month) if month.isdigit() else _MONTHS.index(month[:3].lower()) + 1
        full = int(year) if len(year) == 4 else 2000 + int(year)
        return date(full, number, int(day)) if FIRST_YEAR <= full <= LAST_YEAR else None
    except ValueError:
        return None
