"""The last hours of a stage as charts: what was read a second, how far it was behind, what failed with which code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup

from towpath.flow.codes import MEANINGS, ErrorCode
from towpath.flow.past import PastBatches
from towpath.flow.recent import EVERY_S, LagPoint
from towpath.web.console.charts import Bar, Point, Span, bar_chart, line_chart, series_class

HOUR = timedelta(hours=1)
# What a chart shows: so many hours, in stretches of a width.
WINDOWS: Mapping[str, tuple[timedelta, timedelta]] = {
    "1": (HOUR, timedelta(minutes=1)),
    "6": (6 * HOUR, timedelta(minutes=5)),
    "24": (24 * HOUR, timedelta(minutes=20)),
}
SHORTEST_S = 5.0  # of the stretch that is not over yet: before that a rate would jump
BROKEN_S = 3 * EVERY_S  # two points of a line that are further apart are not joined: nobody looked


@dataclass(frozen=True, slots=True)
class CodeCount:
    """How often an error code was met; `look` is its colour in the chart."""

    code: str
    meaning: str
    count: int
    total: int
    look: str


def rate_chart(past: PastBatches, span: Span) -> Markup:
    """Records a second, by stretch; where no batch was committed, nothing was read."""
    return line_chart("Records a second", list(_rates(past, span)), span, unit="/s")


def lag_chart(points: Sequence[LagPoint], now: datetime, lag: int | None) -> Markup:
    """Over the last hour, with the lag at this moment, if it is known."""
    span = Span(now - HOUR, now)
    return line_chart("Records behind", list(_lags(points, span, lag)), span)


def error_chart(past: PastBatches, span: Span) -> Markup:
    """Failures by code."""
    bars = [Bar(each.at, {code: float(count) for code, count in each.failed.items()}) for each in past.stretches]
    return bar_chart("Failed records", bars, span, past.width, past.codes)


def code_counts(past: PastBatches, totals: Mapping[str, Any]) -> list[CodeCount]:
    """Every code that a stage has met, with the colours that they have in the chart."""
    ever = totals.get("failed", {})
    ever = ever if isinstance(ever, Mapping) else {}
    codes = [*past.codes, *sorted((code for code in ever if code not in past.codes), key=int)]
    return [
        CodeCount(
            code,
            meaning_of(code),
            sum(each.failed.get(code, 0) for each in past.stretches),
            int(ever.get(code, 0)),
            series_class(number) if code in past.codes else "",
        )
        for number, code in enumerate(codes)
    ]


def meaning_of(code: str | int) -> str:
    """In words; of a code that another version knows, nothing."""
    try:
        return MEANINGS[ErrorCode(int(code))]
    except (KeyError, ValueError):
        return ""


def _rates(past: PastBatches, span: Span) -> Iterator[Point]:
    read = {each.at: each.read for each in past.stretches}
    width_s = past.width.total_seconds()
    at = _whole(max(span.since, past.since), past.width)
    while at < span.until:
        lasted_s = min(width_s, (span.until - at).total_seconds())
        yield Point(min(at + past.width / 2, span.until), read.get(at, 0) / max(lasted_s, SHORTEST_S))
        at += past.width


def _lags(points: Sequence[LagPoint], span: Span, lag: int | None) -> Iterator[Point]:
    before: datetime | None = None
    for each in points:
        at = datetime.fromtimestamp(each.at, UTC)
        if at < span.since:
            continue
        if before is not None and (at - before).total_seconds() > BROKEN_S:
            yield Point(before, None)
        yield Point(at, float(each.lag))
        before = at
    if before is not None and (span.until - before).total_seconds() > BROKEN_S:
        yield Point(before, None)
    if lag is not None:
        yield Point(span.until, float(lag))


def _whole(at: datetime, width: timedelta) -> datetime:
    """The beginning of the stretch in which a time lies."""
    seconds = width.total_seconds()
    return datetime.fromtimestamp(at.timestamp() // seconds * seconds, UTC)
