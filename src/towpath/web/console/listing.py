"""What lists have in common: filters and places in them come from the address of the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol, TypeVar

from fastapi import Request

from towpath.errors import BadValue
from towpath.web.model import LARGEST

MOST_DIGITS = 19
_AGE = re.compile(r"([0-9]{1,5})\s*([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class _Numbered(Protocol):
    @property
    def seq(self) -> int:
        """By what pages are cut."""


N = TypeVar("N", bound=_Numbered)
E = TypeVar("E", bound=StrEnum)


def chosen(request: Request, *names: str) -> dict[str, str]:
    """The filters that are filled in."""
    return {name: value for name in names if (value := request.query_params.get(name, "").strip())}


def whole_of(request: Request, name: str) -> int | None:
    """A number of the address; none: it is not there."""
    text = request.query_params.get(name, "").strip()
    if not text:
        return None
    is_number = text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS
    if not (is_number and int(text) <= LARGEST):
        raise BadValue(f"{name}: {text!r} is not a number")
    return int(text)


def time_of(request: Request, name: str, now: datetime) -> datetime | None:
    """A time of the address: an age (`15m`, `6h`, `7d`: so long ago) or a time as ISO 8601 has it, UTC if not said."""
    text = request.query_params.get(name, "").strip()
    if not text:
        return None
    if found := _AGE.fullmatch(text):
        return now - timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadValue(f"{name}: {text!r} is not a time such as 2026-01-31 10:00, or an age such as 15m") from None


def one_of(request: Request, name: str, kind: type[E]) -> E | None:
    """A word of the address, of those that there are; none: it is not there."""
    text = request.query_params.get(name, "").strip()
    if not text:
        return None
    try:
        return kind(text)
    except ValueError:
        raise BadValue(f"{name}: there is no {text!r}; there are: {', '.join(kind)}") from None


def before_of(request: Request) -> int | None:
    """Where a page of a list begins."""
    return whole_of(request, "before") or None


def cut(found: Sequence[N], rows: int) -> tuple[Sequence[N], int | None]:
    """A page of what was asked for with one row more, and where the next one begins."""
    return found[:rows], found[rows - 1].seq if len(found) > rows else None
