"""How what the error desk knows looks on pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from towpath.clock import to_datetime
from towpath.delays import spelled
from towpath.desk.case import Case
from towpath.desk.group import happened
from towpath.flow.codes import MEANINGS, ErrorCode
from towpath.web.console.body_view import visible
from towpath.web.console.sparkline import sparkline


def headline(case: Case) -> str:
    """What happened to it last, in a line."""
    return visible(happened(case.exception, case.message))


def meaning(code: int) -> str:
    """What a code means."""
    return MEANINGS[ErrorCode(code)] if code in {int(each) for each in ErrorCode} else "unknown"


def scalar(value: object) -> str:
    """The value of a field, as JSON has it."""
    return visible(json.dumps(value, ensure_ascii=False, default=str))


def duration(milliseconds: float) -> str:
    """`5m`, as delays are written."""
    return spelled(milliseconds / 1000)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "duration": duration,
    "headline": headline,
    "meaning": meaning,
    "micros": to_datetime,
    "scalar": scalar,
    "sparkline": sparkline,
    "visible": visible,
}
