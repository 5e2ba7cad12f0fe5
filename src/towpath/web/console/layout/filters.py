"""How values look on pages: states, times, numbers, bodies of records, and two texts side by side. Pure.

A body is JSON over several lines with every number as it is, text, or bytes as hexadecimal. It may hold anything. What
is not what it seems is shown as it came: JSON with a name twice, which no JSON reader would show, or with characters
that cannot be written. Characters that are not seen, or that turn a text around, are named.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from towpath.core.clock import to_datetime
from towpath.core.exact_json import Exact, to_json
from towpath.desk.cases.model import Case
from towpath.desk.groups.model import happened
from towpath.flow.failures import MEANINGS, ErrorCode
from towpath.policy import spelled

MINUTE, HOUR, DAY = 60, 3600, 86400
_UNITS = ("B", "kB", "MB", "GB", "TB")
BAR, GAP, HEIGHT = 3, 1, 20  # of a sparkline

SHOWN_BYTES = 64 << 10
HEX_BYTES = 4 << 10

MOST_LINES = 2_000
AROUND = 3  # lines that are the same, shown before and after what differs
SAME, CHANGED, LEFT_OUT = "same", "changed", "left out"

# Control characters but tab and line ends, what turns the direction of writing, and what has no width.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)

# How states look: good, busy, waiting, bad, or quiet when nothing is said.
TONES: Mapping[str, str] = {
    **dict.fromkeys(("OK", "resolved", "done", "alive", "running", "ready", "committed", "End", "met", "on"), "good"),
    **dict.fromkeys(("finished", "loaded", "active", "settled", "enabled", "idle"), "good"),
    **dict.fromkeys(("ACK", "replaying", "extract", "transform", "load", "errors", "busy", "working"), "busy"),
    **dict.fromkeys(("starting", "begun", "sending", "receiving", "closing", "configure", "in progress"), "busy"),
    **dict.fromkeys(("NEW", "waiting", "parked", "retry", "held", "paused", "sleeping", "asleep", "overdue"), "wait"),
    **dict.fromkeys(("ongoing", "new", "stopping", "counted", "recalled", "reset"), "wait"),
    **dict.fromkeys(("ERR", "DEAD", "open", "failed", "halted", "dead", "regressed", "refused", "Failed"), "bad"),
    **dict.fromkeys(("ended", "answered", "handed"), "good"),
    **dict.fromkeys(("making", "deleting"), "busy"),
    **dict.fromkeys(("sent", "disabled"), "wait"),
    **dict.fromkeys(("down", "gone"), "bad"),
    **dict.fromkeys(("aborted", "given_up", "missed", "wrong"), "bad"),
    **{"applied": "good", "right": "good", "filling": "busy", "proposed": "wait", "suggested": "wait"},
}


def state(value: object) -> Markup:
    """A state as a small coloured word. The word says it; the colour only helps."""
    return _marked(f'<span class="state {tone(value)}">{escape(str(value))}</span>')


def tone(state: object) -> str:
    return TONES.get(str(state), "quiet")


def span(seconds: float) -> str:
    """`3 min`, `2 h 10 min`, `4 d`."""
    seconds = abs(seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < MINUTE:
        return f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{seconds / MINUTE:.0f} min"
    if seconds < DAY:
        hours, rest = divmod(int(seconds), HOUR)
        return f"{hours} h {rest // MINUTE} min" if rest >= MINUTE and hours < 10 else f"{hours} h"
    return f"{seconds / DAY:.0f} d"


def ago(at: datetime | None, now: datetime) -> Markup:
    """A time as a person says it; the exact one is behind it, and the reader can change which is shown."""
    if at is None:
        return Markup("–")
    at = at.astimezone(UTC)
    seconds = (now - at).total_seconds()
    words = f"in {span(seconds)}" if seconds < -1 else f"{span(max(seconds, 0))} ago" if seconds >= 1 else "now"
    exact = at.strftime("%Y-%m-%d %H:%M:%S")
    return _marked(f'<time datetime="{at.isoformat()}" title="{exact} UTC" data-ago="{words}">{words}</time>')


def exact(at: datetime | None) -> Markup:
    """A time to the second, in UTC."""
    if at is None:
        return Markup("–")
    at = at.astimezone(UTC)
    text = at.strftime("%Y-%m-%d %H:%M:%S")
    return _marked(f'<time datetime="{at.isoformat()}" title="{text} UTC" data-ago="{text}">{text} UTC</time>')


def number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.1f}" if value < 100 and value != int(value) else f"{value:,.0f}"


def percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value * 100:.{digits}f} %"


def size(value: float | None) -> str:
    """`12.3 MB`."""
    if value is None:
        return "–"
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1000
    return ""


def duration(milliseconds: float) -> str:
    """`5m`, as delays are written."""
    return spelled(milliseconds / 1000)


def pretty(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def details(data: Mapping[str, Any]) -> str:
    """Names and values on one line."""
    return " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)}"
        for name, value in data.items()
        if value is not None
    )


def short(text: object, most: int = 80) -> str:
    """A text on one line, cut."""
    line = " ".join(str(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def last_line(text: str) -> str:
    """What a trace ends with: the exception. Of any other text, all of it."""
    lines = text.rstrip().splitlines()
    return lines[-1].strip() if len(lines) > 1 and lines[0].startswith("Traceback") else text


def scalar(value: object) -> str:
    """The value of a field, as JSON has it."""
    return visible(json.dumps(value, ensure_ascii=False, default=str))


def link(path: str) -> str:
    """A part of an address."""
    return quote(str(path), safe="")


def with_query(query: Mapping[str, str], **changed: object) -> str:
    """The query of an address with some things changed; none: left out."""
    kept: dict[str, object] = {**query, **changed}
    return "?" + urlencode({name: str(value) for name, value in kept.items() if value not in (None, "")})


def hexdump(value: bytes, most: int = 4096) -> str:
    """Bytes as offsets, numbers and letters."""
    lines = []
    for begin in range(0, min(len(value), most), 16):
        part = value[begin : begin + 16]
        letters = "".join(chr(each) if 32 <= each < 127 else "·" for each in part)
        lines.append(f"{begin:08x}  {part.hex(' '):<47}  {letters}")
    return "\n".join(lines)


def mark(text: str, found: str) -> Markup:
    """A text in which what was searched for is marked."""
    if not found:
        return escape(text)
    parts = text.split(found)
    return Markup("<mark>{}</mark>").format(found).join(escape(part) for part in parts)


def visible(text: str) -> str:
    """With what nobody would see named: `⟨U+202E⟩`."""
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def key_text(key: bytes | None) -> str:
    """The key of a record."""
    if key is None:
        return "none"
    try:
        return visible(key.decode())
    except UnicodeDecodeError:
        return key[:64].hex(" ")


def headline(case: Case) -> str:
    """What happened to it last, in a line."""
    return visible(happened(case.exception, case.message))


def meaning(code: int) -> str:
    """What a code means."""
    return MEANINGS[ErrorCode(code)] if code in {int(each) for each in ErrorCode} else "unknown"


def sparkline(hours: Sequence[int]) -> Markup:
    """How many errors came in each hour, as SVG that says so in words, too. The oldest is on the left."""
    top, total = max(hours, default=0), sum(hours)
    said = (
        f"{total:,} in the last {len(hours)} hours, {hours[-1]:,} in the present one" if hours else "nothing is known"
    )
    width = len(hours) * (BAR + GAP)
    return Markup(
        '<svg class="spark" role="img" width="{}" height="{}" viewBox="0 0 {} {}"><title>{}</title>{}</svg>'
    ).format(width, HEIGHT, width, HEIGHT, said, Markup().join(_bar(at, count, top) for at, count in enumerate(hours)))


FILTERS: dict[str, Callable[..., Any]] = {
    "ago": ago,
    "details": details,
    "duration": duration,
    "exact": exact,
    "headline": headline,
    "hexdump": hexdump,
    "last_line": last_line,
    "link": link,
    "mark": mark,
    "meaning": meaning,
    "micros": to_datetime,
    "number": number,
    "percent": percent,
    "pretty": pretty,
    "scalar": scalar,
    "short": short,
    "size": size,
    "span": span,
    "sparkline": sparkline,
    "state": state,
    "tone": tone,
    "visible": visible,
    "with_query": with_query,
}


@dataclass(frozen=True, slots=True)
class BodyView:
    """How a body is shown."""

    kind: str  # "JSON", "text" or "bytes"
    text: str
    size: int
    is_cut: bool = False
    raw: str | None = None  # byte for byte, when `text` is laid out


def body_view(value: bytes) -> BodyView:
    """For a page."""
    size = len(value)
    cut = value[:SHOWN_BYTES]
    try:
        text = cut.decode(errors="strict" if len(cut) == size else "ignore")
        value.decode()
    except UnicodeDecodeError:
        return BodyView("bytes", hexdump(value, HEX_BYTES), size, size > HEX_BYTES)
    if len(cut) < size:
        return BodyView("text", visible(text), size, is_cut=True)
    laid_out = laid_out_json(text)
    if laid_out is None:
        return BodyView("text", visible(text), size)
    raw = None if laid_out == text else visible(text)
    return BodyView("JSON", visible(laid_out), size, raw=raw)


def laid_out_json(text: str) -> str | None:
    """JSON over several lines that says the same as the text; none: it is not JSON, or would not say the same."""
    try:
        found = json.loads(
            text, parse_int=Exact, parse_float=Exact, parse_constant=_no_constant, object_pairs_hook=_once
        )
        shown = to_json(found, indent="  ")
        shown.encode()
    except (ValueError, RecursionError):
        return None
    return shown


class Row(NamedTuple):
    """A line on each side; none: there is none. Of lines that were left out, `left` says how many."""

    kind: str
    left_number: int | None
    left: str | None
    right_number: int | None
    right: str | None


def side_by_side(before: str, after: str) -> list[Row]:
    """The rows of a table with two columns; nothing differs: none."""
    old, new = before.splitlines()[:MOST_LINES], after.splitlines()[:MOST_LINES]
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    if all(kind == "equal" for kind, *_ in blocks):
        return []
    return [row for number, block in enumerate(blocks) for row in _rows(block, old, new, number, len(blocks))]


def _marked(text: str) -> Markup:
    """Of what is escaped already: a list has a hundred of these, and `Markup.format` takes a third of its time."""
    return Markup(text)  # noqa: S704 - as said


def _bar(at: int, count: int, top: int) -> Markup:
    """An hour without errors is a dot, so that one sees where the day begins."""
    height = max(2, round(HEIGHT * count / top)) if count else 1
    look = "bar" if count else "none"
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
        look, at * (BAR + GAP), HEIGHT - height, BAR, height
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _rows(
    block: tuple[str, int, int, int, int], old: Sequence[str], new: Sequence[str], number: int, blocks: int
) -> Iterator[Row]:
    kind, start, stop, new_start, new_stop = block
    if kind == "equal":
        yield from _same(old, start, stop, new_start, is_first=number == 0, is_last=number == blocks - 1)
        return
    for at in range(max(stop - start, new_stop - new_start)):
        left = start + at if start + at < stop else None
        right = new_start + at if new_start + at < new_stop else None
        yield Row(CHANGED, *_line(old, left), *_line(new, right))


def _same(old: Sequence[str], start: int, stop: int, new_start: int, *, is_first: bool, is_last: bool) -> Iterator[Row]:
    shown_first = 0 if is_first else AROUND
    shown_last = 0 if is_last else AROUND
    gap_start, gap_stop = start + shown_first, stop - shown_last
    if gap_stop - gap_start <= 1:  # a line that says that one is left out is no shorter
        gap_start = gap_stop = stop
    for at in range(start, stop):
        if at == gap_start and gap_start < gap_stop:
            yield Row(LEFT_OUT, None, str(gap_stop - gap_start), None, None)
        if not gap_start <= at < gap_stop:
            other = new_start + at - start
            yield Row(SAME, at + 1, old[at], other + 1, old[at])


def _line(lines: Sequence[str], at: int | None) -> tuple[int | None, str | None]:
    return (None, None) if at is None else (at + 1, lines[at])
