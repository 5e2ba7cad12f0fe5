"""How people write numbers and dates, what one text may mean, and typing slips between two texts. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import lru_cache

TEXT_CHARACTERS = 40
# A sign or word of a currency or unit may stand on one side.
_AMOUNT = re.compile(
    r"(?P<before>[€$£¥]|[A-Z]{3})?\s*(?P<sign>[-+−])?\s*(?P<digits>\d[\d.,'   ]*)\s*(?P<after>[€$£¥%]|[A-Za-z]{1,3})?",
    re.ASCII,
)
_PLAIN = re.compile(r"\d+(?:\.\d+)?", re.ASCII)

# Years that a record may be about. What is outside is some other number.
FIRST_YEAR, LAST_YEAR = 1900, 2099
_DATE = re.compile(
    r"(?P<a>\d{1,4})(?P<s>[-/. ])(?P<b>\d{1,2}|[A-Za-z]{3,9})(?P=s)(?P<c>\d{1,4})(?P<t>[T ]\d{2}:\d{2}\S*)?",
    re.ASCII,
)
_TIGHT = re.compile(r"\d{8}", re.ASCII)
_DIGIT = re.compile(r"\d")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# Where year, month and day stand.
_ORDERS = {"ymd": (0, 1, 2), "dmy": (2, 1, 0), "mdy": (2, 0, 1)}

ONE_SLIP_FROM = 4  # characters that a value must have before one slip in it is believed
TWO_SLIPS_FROM = 8
_NO_DIGIT = re.compile(r"\D+")
_LOOSE = re.compile(r"[\s_\-./]+")


@lru_cache(maxsize=8192)
def amounts(text: str) -> tuple[Amount, ...]:
    """All ways to read a text as a number; none if it is not one."""
    text = text.strip()
    if len(text) > TEXT_CHARACTERS:
        return ()
    found = _AMOUNT.fullmatch(text)
    if not found or (found["before"] and found["after"]):
        return ()
    has_word = bool(found["before"] or found["after"])
    sign = -1 if found["sign"] in ("-", "−") else 1
    values = dict.fromkeys(_read_digits(found["digits"].strip()))
    return tuple(Amount(sign * value, mark, has_word) for value, mark in values)


@dataclass(frozen=True, slots=True)
class Amount:
    """One way to read a text as a number."""

    value: Decimal
    mark: str  # before the decimals: "." or ","; "": it has none
    has_word: bool  # a currency or unit stands beside it

    @property
    def decimals(self) -> int:
        return max(0, -int(self.value.as_tuple().exponent))


def _read_digits(digits: str) -> Iterator[tuple[Decimal, str]]:
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


@lru_cache(maxsize=8192)
def readings(text: str) -> tuple[DateReading, ...]:
    """All ways to read a text as a day; none if it is no date."""
    text = text.strip()
    if len(text) > TEXT_CHARACTERS:
        return ()
    if _TIGHT.fullmatch(text):
        return tuple(_read_tight(text))
    found = _DATE.fullmatch(text)
    return tuple(_read_parts(found)) if found else ()


@dataclass(frozen=True, slots=True)
class DateReading:
    """One way to read a text as a day."""

    day: date
    layout: DateLayout
    time: str = ""  # what follows the day, as it stands
    width: str | None = None  # "padded" (01) or "bare" (1), where it shows


@dataclass(frozen=True, slots=True)
class DateLayout:
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
    def of_text(cls, text: str) -> DateLayout:
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


def _read_tight(text: str) -> Iterator[DateReading]:
    for order, parts in (("ymd", (text[:4], text[4:6], text[6:])), ("dmy", (text[4:], text[2:4], text[:2]))):
        if day := _day(*parts):
            yield DateReading(day, DateLayout(order, "", 4, "number", ""))


def _read_parts(found: re.Match[str]) -> Iterator[DateReading]:
    parts, time = (found["a"], found["b"], found["c"]), found["t"] or ""
    for order, (y, m, d) in _ORDERS.items():
        year, month, day = parts[y], parts[m], parts[d]
        if not _may_be(year, month, day):
            continue
        if read := _day(year, month, day):
            named = "number" if month.isdigit() else "name"
            layout = DateLayout(order, found["s"], len(year), named, _DIGIT.sub("9", time))
            yield DateReading(read, layout, time, _width(month, day))


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


@dataclass(frozen=True, slots=True)
class NearValue:
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


def nearest(text: str, known: Iterable[str]) -> list[NearValue]:
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
            found.append(NearValue(value, slips))
    return sorted(found, key=lambda near: (near.slips, near.value))
