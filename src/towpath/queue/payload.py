"""What may be sent: JSON that both databases can hold, names that people can read, and ids."""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any
from uuid import UUID

from towpath.errors import BadName, BadPayload, BadValue, UnknownMessage

LONGEST_NAME = 200
ACTORS = "actor:"  # inboxes whose names begin so are read by actors only
DEEPEST_NESTING = 200  # SQLite reads 1,000 levels, Python's reader fewer when its caller is deep in the stack

_NAME = re.compile(rf"[^\s\x00-\x1f\x7f\ud800-\udfff]{{1,{LONGEST_NAME}}}")
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False)


def _make_encode() -> Callable[[Any], str]:
    """The encoder's own way of working, made once: `JSONEncoder.encode` makes it anew for every value."""
    make = getattr(json.encoder, "c_make_encoder", None)  # not every Python has it
    if make is None:
        return _ENCODER.encode
    chunks = make(None, _ENCODER.default, json.encoder.encode_basestring, None, ":", ",", False, False, False)
    return lambda value: "".join(chunks(value, 0))


_encode = _make_encode()


def to_json(value: Any, max_bytes: int, what: str = "payload") -> str:
    """The value as JSON text, or `BadPayload` with the reason."""
    try:
        text = _encode(value)
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise BadPayload(f"the {what} holds an unpaired surrogate at {error.start}: not valid Unicode") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise BadPayload(f"the {what} is not JSON: {error}") from error
    if size > 2 * DEEPEST_NESTING and text.count("[") + text.count("{") > DEEPEST_NESTING and is_too_deep(value):
        raise BadPayload(f"the {what} is nested deeper than {DEEPEST_NESTING} levels")
    if "\\u0000" in text and holds_nul(value):
        raise BadPayload(f"the {what} holds a NUL character; replace it or encode the bytes, for example as base64")
    if size > max_bytes:
        raise BadPayload(
            f"the {what} has {size:,} bytes, the limit is {max_bytes:,} (setting queue.max_payload_bytes); "
            "send a reference to where the data lies instead"
        )
    return text


def headers_to_json(headers: Mapping[str, Any], max_bytes: int) -> str:
    """The headers as JSON text, if their names are names."""
    return to_json({check_name(name, "header name"): value for name, value in headers.items()}, max_bytes, "header")


def from_json(text: str, what: str = "payload") -> Any:
    """The value of JSON text typed by a person, or `BadPayload` with the place of the mistake."""

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key stands twice in one object")
        return found

    def unchanged(number: str) -> float:
        value = float(number)
        try:
            is_kept = Decimal(repr(value)) == Decimal(number)
        except InvalidOperation:  # an exponent beyond all bounds
            is_kept = False
        if not is_kept:
            raise ValueError(f"{number} would become {value!r}: the queue keeps numbers of 64 bits; send it as a text")
        return value

    try:
        return json.loads(text, parse_constant=refuse, parse_float=unchanged, object_pairs_hook=without_repeats)
    except (ValueError, RecursionError) as error:
        raise BadPayload(f"the {what} is not JSON: {error}") from error


def holds_nul(value: Any) -> bool:
    return any("\x00" in inner for inner, _ in _walk(value) if isinstance(inner, str))


def is_too_deep(value: Any) -> bool:
    return any(depth > DEEPEST_NESTING for inner, depth in _walk(value) if isinstance(inner, dict | list | tuple))


def _walk(value: Any) -> Iterator[tuple[Any, int]]:
    """Every value and key inside a value, itself included, with its depth; without recursion, which has a limit."""
    waiting = [(value, 1)]
    while waiting:
        inner, depth = waiting.pop()
        yield inner, depth
        if isinstance(inner, dict):
            waiting += [(part, depth + 1) for pair in inner.items() for part in pair]
        elif isinstance(inner, list | tuple):
            waiting += [(part, depth + 1) for part in inner]


@lru_cache(maxsize=1024)
def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def check_name(name: object, what: str) -> str:
    """The name if it is one, or `BadName`."""
    if not isinstance(name, str) or not _is_name(name):
        raise BadName(
            f"{name!r} is not a usable {what}: 1 to {LONGEST_NAME} characters without spaces or control characters"
        )
    return name


def check_seconds(value: float | None, what: str) -> float | None:
    """A duration that is a finite number above zero, or none."""
    if value is None:
        return None
    if not 0 < value < 1e10:
        raise BadValue(f"{what}={value!r} must be a number of seconds above 0")
    return float(value)


def check_id(message_id: str) -> str:
    """The id in its usual form; `UnknownMessage` when no message can have it."""
    try:
        return str(UUID(message_id))
    except (ValueError, AttributeError, TypeError) as error:
        raise UnknownMessage(str(message_id)) from error


class _Ids:
    """Makes ids that are unique without asking anyone: the time, 38 random bits of this process, a count."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start over with another random part: at the start, and in a forked child."""
        tail = os.urandom(5).hex()
        self._mine = f"-7{tail[:3]}-{'89ab'[int(tail[3], 16) & 3]}{tail[4:7]}-{os.urandom(3).hex()}"
        self._count = itertools.count(int.from_bytes(os.urandom(2), "big"))
        self._head = (-1, "")

    def next(self) -> str:
        now_ms = time.time_ns() // 1_000_000
        made_ms, head = self._head
        if made_ms != now_ms:
            text = f"{now_ms:012x}"
            head = f"{text[:8]}-{text[8:]}{self._mine}"
            self._head = (now_ms, head)
        return f"{head}{next(self._count) & 0xFFFFFF:06x}"


_ids = _Ids()
os.register_at_fork(after_in_child=_ids.begin)


def new_id() -> str:
    """A UUID of version 7: its first part grows with time, so that new ids go to the end of the index."""
    return _ids.next()
