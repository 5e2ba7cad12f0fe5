"""How values look on pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

MINUTE, HOUR, DAY = 60, 3600, 86400
_UNITS = ("B", "kB", "MB", "GB", "TB")

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


def _marked(text: str) -> Markup:
    """Of what is escaped already: a list has a hundred of these, and `Markup.format` takes a third of its time."""
    return Markup(text)  # noqa: S704 - as said


def tone(state: object) -> str:
    return TONES.get(str(state), "quiet")


def state(value: object) -> Markup:
    """A state as a small coloured word. The word says it; the colour only helps."""
    return _marked(f'<span class="state {tone(value)}">{escape(str(value))}</span>')


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


FILTERS: dict[str, Callable[..., Any]] = {
    "ago": ago,
    "details": details,
    "exact": exact,
    "hexdump": hexdump,
    "last_line": last_line,
    "link": link,
    "mark": mark,
    "number": number,
    "percent": percent,
    "pretty": pretty,
    "short": short,
    "size": size,
    "span": span,
    "state": state,
    "tone": tone,
    "with_query": with_query,
}
