"""What flows: a million events of about 200 bytes. Some are bad, in five ways."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

EVENTS = 1_000_000
WARM_UP_EVENTS = 300_000
PARTITIONS = 2
BAD_SHARE = 100  # one of so many
KINDS = ("page.viewed", "link.clicked", "order.placed")
SECTIONS = 7

SCHEMA = "type string, user string, at bigint, url string, amount double"
INDEX = "bench-"  # and the type


def event(number: int) -> dict[str, Any]:
    return {
        "type": KINDS[number % len(KINDS)],
        "user": f"user-{number % 5_000}",
        "at": 1_700_000_000_000 + number,
        "url": f"/section{number % SECTIONS}/page{number % 1_000}",
        "session": f"{number * 7919 % 1_000_003:x}-abcdef",
        "amount": number % 977 * 0.25,
        "from": "https://example.org/start?campaign=spring",
    }


def values(events: int, *, is_bad: bool = False) -> Iterator[bytes]:
    """As they stand in the topic. Of bad ones one in a hundred fails: parse, schema, expectation, step, index."""
    for number in range(events):
        made = event(number)
        if is_bad and number % BAD_SHARE == 0:
            yield _bad(number // BAD_SHARE, made)
        else:
            yield _text(made)


def bad_events(events: int) -> int:
    return -(-events // BAD_SHARE)


def _bad(which: int, made: dict[str, Any]) -> bytes:
    match which % 5:
        case 0:
            return _text(made)[:-1]
        case 1:
            return _text(made | {"at": "yesterday"})
        case 2:
            return _text(made | {"at": -1})
        case 3:
            return _text(made | {"url": "nowhere"})
        case _:
            return _text(made | {"session": {"id": 1}})  # the index has made it a text


def _text(made: dict[str, Any]) -> bytes:
    return json.dumps(made, separators=(",", ":")).encode()
