"""Columns of days and times, from strings in ISO 8601 as RFC 3339 narrows it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from towpath.flow.text.kind import Kind
from towpath.flow.text.scalars import Text

_DAY = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"T\d{2}:\d{2}:\d{2}(?:\.\d{1,6}0*)?"
_ZONE = r"(?:Z|[+-]\d{2}:\d{2})"

# The years that Python knows: a value beyond them could not be handed to a step.
_FIRST = datetime(1, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


@dataclass(frozen=True)
class Day(Kind):
    """`2024-05-06`."""

    ddl = "date"
    arrow = pa.date32()
    spark = "date"

    def array(self, values: list[Any]) -> pa.Array | None:
        return _parsed(values, rf"^{_DAY}$", self.arrow, _FIRST.date(), _LAST.date())

    def fit(self, value: Any, path: str) -> date:
        if isinstance(value, str) and re.fullmatch(_DAY, value, re.ASCII):
            try:
                return date.fromisoformat(value)
            except ValueError:
                raise self.misfit(value, path, ", which is no day") from None
        raise self.misfit(value, path, "; a day is written 2024-05-06")


@dataclass(frozen=True)
class Time(Kind):
    """`2024-05-06T07:08:09.123456Z`, or with an offset such as `+02:00`. A time without either is refused.

    It is the other way round for times without a zone (`timestamp_ntz`): there a zone is refused.
    """

    has_zone: bool = True

    @property
    def ddl(self) -> str:
        return "timestamp" if self.has_zone else "timestamp_ntz"

    @property
    def arrow(self) -> pa.DataType:
        return pa.timestamp("us", "UTC" if self.has_zone else None)

    @property
    def spark(self) -> str:
        return self.ddl

    @property
    def _pattern(self) -> str:
        return _DAY + _CLOCK + (_ZONE if self.has_zone else "")

    def array(self, values: list[Any]) -> pa.Array | None:
        zone = UTC if self.has_zone else None
        return _parsed(
            values, f"^{self._pattern}$", self.arrow, _FIRST.replace(tzinfo=zone), _LAST.replace(tzinfo=zone)
        )

    def fit(self, value: Any, path: str) -> datetime:
        if isinstance(value, str) and re.fullmatch(self._pattern, value, re.ASCII):
            try:
                return self._read(value)
            except (ValueError, OverflowError):
                raise self.misfit(value, path, ", which is no time") from None
        zone = "Z" if self.has_zone else ""
        finest = "; a time is written 2024-05-06T07:08:09{zone}, with six digits after the point at most"
        raise self.misfit(value, path, finest.format(zone=zone))

    def _read(self, value: str) -> datetime:
        time = datetime.fromisoformat(re.sub(r"(\.\d{6})0+", r"\1", value))
        return time.astimezone(UTC) if self.has_zone else time


def _parsed(values: list[Any], pattern: str, arrow: pa.DataType, first: date, last: date) -> pa.Array | None:
    """Strings of a pattern as Arrow reads them, if all are of it and within the years that Python knows."""
    texts = Text().array(values)
    if texts is None or pc.all(pc.match_substring_regex(texts, pattern)).as_py() is False:
        return None
    try:
        parsed = texts.cast(arrow)
    except pa.ArrowInvalid:
        return None
    bounds = pc.min_max(parsed)
    lowest, highest = pa.scalar(first, arrow), pa.scalar(last, arrow)
    if pc.or_(pc.less(bounds["min"], lowest), pc.greater(bounds["max"], highest)).as_py():
        return None
    return parsed
