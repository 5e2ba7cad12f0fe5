"""Charts of values over time, as SVG. Pure: every text is escaped, and looks are classes of console.css.

A chart says in words what it shows, for who cannot see it, and each bar and the end of a line say their value to a
pointer. Colours only help: what they stand for is written beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import floor, log10

from markupsafe import Markup

WIDTH, HEIGHT = 460.0, 180.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 14.0, 12.0, 26.0
TIMES = 4  # that are written below a chart
SERIES = 6  # colours that there are; the last one stands for all others
DAY = timedelta(days=1)
_STEPS = (1, 2, 2.5, 5, 10)
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """From when to when a chart shows."""

    since: datetime
    until: datetime

    @property
    def seconds(self) -> float:
        return max((self.until - self.since).total_seconds(), 1e-6)

    def x(self, at: datetime) -> float:
        share = (at - self.since).total_seconds() / self.seconds
        return LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - RIGHT)


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a time; none: nobody knows it, and the line is broken there."""

    at: datetime
    value: float | None


@dataclass(frozen=True, slots=True)
class Bar:
    """What was counted from a time on for as long as a bar lasts, by series."""

    at: datetime
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return sum(self.parts.values())


def line_chart(title: str, points: Sequence[Point], span: TimeSpan, *, unit: str = "") -> Markup:
    """A value that goes up and down."""
    known = [point.value for point in points if point.value is not None]
    top = ceiling(max(known, default=0.0))
    body = Markup().join(_runs(points, span, top))
    if points and points[-1].value is not None:
        at, value = points[-1].at, points[-1].value
        body += Markup('<circle class="dot" cx="{}" cy="{}" r="3.5"><title>{}</title></circle>').format(
            px(span.x(at)), px(_y(value, top)), f"{_clock(at, span)}: {figure(value)}{unit}"
        )
    return _chart(_said(title, known, unit), body, span, top)


def bar_chart(title: str, bars: Sequence[Bar], span: TimeSpan, width: timedelta, series: Sequence[str] = ()) -> Markup:
    """Counts, one bar for each stretch of time; `series` are the parts of a bar, from the bottom up."""
    names = list(series) or sorted({name for bar in bars for name in bar.parts})
    top = ceiling(max((bar.total for bar in bars), default=0.0))
    body = Markup().join(part for bar in bars for part in _bar(bar, span, width, names, top))
    return _chart(_said(title, [bar.total for bar in bars], ""), body, span, top)


def series_class(number: int) -> str:
    """The colour of a series, by its place."""
    return f"s{min(number, SERIES - 1)}"


def ceiling(value: float) -> float:
    """The end of an axis: a round number that is not below the value."""
    if value <= 0:
        return 1.0
    scale = 10.0 ** floor(log10(value))
    return next(step * scale for step in (*_STEPS, 20) if step * scale >= value * (1 - 1e-9))


def figure(value: float) -> str:
    """`850`, `1.2k`, `3M`: short enough for an axis."""
    for size, letter in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def px(value: float) -> str:
    """A number of SVG, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def _chart(said: str, body: Markup, span: TimeSpan, top: float) -> Markup:
    return Markup('<svg class="chart" role="img" viewBox="0 0 {} {}"><title>{}</title>{}{}</svg>').format(
        px(WIDTH), px(HEIGHT), said, Markup().join(_axes(span, top)), body
    )


def _said(title: str, values: Sequence[float], unit: str) -> str:
    if not values:
        return f"{title}: nothing is known"
    return f"{title}: {figure(values[-1])}{unit} last, {figure(max(values))}{unit} at most"


def _axes(span: TimeSpan, top: float) -> Iterator[Markup]:
    for share in (0.0, 0.5, 1.0):
        y = _y(share * top, top)
        yield Markup('<path class="axis" d="M {} {} H {}"/>').format(px(LEFT), px(y), px(WIDTH - RIGHT))
        yield Markup('<text class="dim" x="{}" y="{}" text-anchor="end">{}</text>').format(
            px(LEFT - 8), px(y + 4), figure(share * top)
        )
    for number in range(TIMES + 1):
        at = span.since + (span.until - span.since) * number / TIMES
        anchor = "start" if number == 0 else "end" if number == TIMES else "middle"
        yield Markup('<text class="dim" x="{}" y="{}" text-anchor="{}">{}</text>').format(
            px(span.x(at)), px(HEIGHT - 6), anchor, _clock(at, span)
        )


def _runs(points: Sequence[Point], span: TimeSpan, top: float) -> Iterator[Markup]:
    """A line, and what lies below it, for each stretch without a hole."""
    run: list[tuple[float, float]] = []
    for point in (*points, Point(span.until, None)):
        if point.value is not None:
            run.append((span.x(point.at), _y(point.value, top)))
        elif run:
            path = " L ".join(f"{px(x)} {px(y)}" for x, y in run)
            floor_y = px(_y(0, top))
            yield Markup('<path class="area" d="M {} {} L {} L {} {} Z"/>').format(
                px(run[0][0]), floor_y, path, px(run[-1][0]), floor_y
            )
            yield Markup('<path class="line" d="M {}"/>').format(path)
            run = []


def _bar(bar: Bar, span: TimeSpan, width: timedelta, names: Sequence[str], top: float) -> Iterator[Markup]:
    x, end = span.x(bar.at), span.x(bar.at + width)
    room = max(end - x - 1, 0.8)
    below = 0.0
    for number, name in enumerate(names):
        count = bar.parts.get(name, 0.0)
        if count <= 0:
            continue
        y, height = _y(below + count, top), _y(below, top) - _y(below + count, top)
        below += count
        yield Markup('<rect class="bar {}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
            series_class(number),
            px(x),
            px(y),
            px(room),
            px(height),
            f"{_clock(bar.at, span)}: {name} {figure(count)}",
        )


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP)


def _clock(at: datetime, span: TimeSpan) -> str:
    at = at.astimezone(UTC)
    return at.strftime("%H:%M") if span.until - span.since <= DAY else at.strftime("%d %b %H:%M")
