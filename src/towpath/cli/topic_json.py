"""Records as lines of JSON: the form that `read --json` prints and `send --records` takes, exact to the byte.

Bytes that are UTF-8 are text; others are `{"base64": "…"}`. Headers are pairs, so that one name may come twice.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, NoReturn

from towpath.errors import BadRecord

if TYPE_CHECKING:
    from towpath.log import NewRecord, Record

_PARTS = {"topic", "partition", "offset", "timestamp", "key", "value", "headers"}
_WHAT_A_TEXT_IS = 'text, {"base64": "…"} or null'


def to_line(record: Record) -> str:
    from towpath.log.record_json import record_item

    return json.dumps(record_item(record), ensure_ascii=False)


def from_line(line: bytes) -> NewRecord:
    """A record to append; raises `BadRecord`. Topic and offset, as `read --json` prints them, count for nothing."""
    from towpath.log import NewRecord

    item = parse(line)
    if not isinstance(item, dict):
        raise BadRecord('a record is {"value": …, "key": …, "headers": …, "timestamp": …, "partition": …}')
    if unknown := sorted(item.keys() - _PARTS):
        raise BadRecord(f"{unknown[0]!r} is not a part of a record; parts: {', '.join(sorted(_PARTS))}")
    if "value" not in item:
        raise BadRecord('a record has a "value", if only null')
    return NewRecord(
        _bytes(item["value"], "value"),
        _bytes(item.get("key"), "key"),
        _headers(item.get("headers")),
        _number(item.get("timestamp"), "timestamp"),
        _number(item.get("partition"), "partition"),
    )


def parse(line: bytes) -> Any:
    """A document of strict JSON; raises `BadRecord`."""
    try:
        return json.loads(line.decode(), parse_constant=_refuse, parse_int=_whole, parse_float=Digits)
    except UnicodeDecodeError as error:
        raise BadRecord(f"not UTF-8 at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        raise BadRecord(f"not JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise BadRecord("not JSON: nested too deeply") from error


class Digits(str):
    """A number as it is written, where Python's would be another one, or none."""

    __slots__ = ()


def _whole(text: str) -> int | Digits:
    return int(text) if len(text) <= 1000 else Digits(text)


def _refuse(constant: str) -> NoReturn:
    raise BadRecord(f"not JSON: {constant}")


def _bytes(given: Any, name: str) -> bytes | None:
    match given:
        case None:
            return None
        case Digits():
            pass
        case str():
            try:
                return given.encode()
            except UnicodeEncodeError as error:
                raise BadRecord(f"the {name} holds an unpaired surrogate, which is no text") from error
        case {"base64": str(text), **rest} if not rest:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError) as error:
                raise BadRecord(f"the {name} is not base64: {error}") from error
    raise BadRecord(f"the {name} is {_WHAT_A_TEXT_IS}; a JSON document as text, in quotes")


def _headers(given: Any) -> tuple[tuple[str, bytes | None], ...]:
    match given:
        case None:
            return ()
        case dict():
            pairs: Any = given.items()
        case list() if all(isinstance(pair, list) and len(pair) == 2 for pair in given):
            pairs = given
        case _:
            raise BadRecord('headers are {"name": value, …} or [["name", value], …]')
    if not all(type(name) is str for name, _ in pairs):
        raise BadRecord("the name of a header is text")
    return tuple((name, _bytes(value, f"header {name!r}")) for name, value in pairs)


def _number(given: Any, name: str) -> int | None:
    if given is None or type(given) is int:
        return given
    raise BadRecord(f"the {name} is a whole number" + (" of milliseconds since 1970" if name == "timestamp" else ""))
