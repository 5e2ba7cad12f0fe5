"""How records look: one a line, one whole, and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import typer

from towpath.cli.output import console, plain, pretty, print_fields
from towpath.cli.topic_json import to_line
from towpath.cli.topic_times import shown_time
from towpath.exact_json import Exact
from towpath.log import Record
from towpath.log.record import Headers

NOTHING = "∅"  # no key, or no value: other than an empty one
MOST_BYTES_OF_A_CHARACTER = 4


def record_printer(as_json: bool, *, at_once: bool = False) -> Callable[[Record], None]:
    """What prints a record on a line; `at_once` for records that come one by one."""
    if as_json:
        return lambda record: _write(to_line(record), at_once)
    if not sys.stdout.isatty():
        return lambda record: _write(_line(record), at_once)
    out = console()

    def print_cut(record: Record) -> None:
        from rich.text import Text

        line = Text(_line(record, most_bytes=out.width * MOST_BYTES_OF_A_CHARACTER))
        line.stylize("dim", 0, len(_head(record)))
        out.print(line, no_wrap=True, overflow="ellipsis", crop=True)

    return print_cut


def print_record(record: Record) -> None:
    """All of one record."""
    print_fields(
        [
            ("record", f"{record.topic}/{record.partition}/{record.offset}"),
            ("time", f"{shown_time(record.timestamp_ms)} UTC"),
            ("key", _text(record.key)),
            *((f"header {name}", _text(value)) for name, value in record.headers),
            ("size", "no value" if record.value is None else f"{len(record.value):,} bytes"),
        ]
    )
    if record.value is not None:
        typer.echo()
        typer.echo(_document(record.value))


def _write(line: str, at_once: bool) -> None:
    sys.stdout.write(f"{line}\n")
    if at_once:
        sys.stdout.flush()


def _head(record: Record) -> str:
    return f"{record.partition}/{record.offset}  {shown_time(record.timestamp_ms)}"


def _line(record: Record, most_bytes: int | None = None) -> str:
    headers = _headers(record.headers)
    parts = [_head(record), _text(record.key, most_bytes), *([headers] if headers else [])]
    return "  ".join([*parts, _text(record.value, most_bytes)])


def _headers(headers: Headers) -> str:
    return f"[{' '.join(f'{plain(name)}={_text(value)}' for name, value in headers)}]" if headers else ""


def _text(part: bytes | None, most_bytes: int | None = None) -> str:
    """On one line, with whatever a terminal would not show as text spelled out."""
    return NOTHING if part is None else plain(part[:most_bytes].decode(errors="backslashreplace"))


def _document(value: bytes) -> str:
    """JSON over several lines where that changes nothing about it; else the text as it is."""
    try:
        read = json.loads(
            value.decode(), parse_int=Exact, parse_float=Exact, parse_constant=Exact, object_pairs_hook=_object
        )
    except (ValueError, RecursionError):
        return "\n".join(map(plain, value.decode(errors="backslashreplace").split("\n")))
    return pretty(read)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name comes twice, and one of them would not be shown")
    return dict(pairs)
