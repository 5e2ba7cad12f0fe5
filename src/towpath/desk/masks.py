"""Which fields of a record a role may not see, and how they are hidden in bodies, keys, headers and messages. Pure.

A path such as `customer.email` goes through lists by itself. `$key` is the record's key, `$headers.name` a header. A
body that is not a JSON object is hidden whole, since it is not known where in it the field is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from towpath.flow.records.errors import PREFIX
from towpath.log.record import Headers

DEPTH = 254  # that can be written; four times as deep can be read
UNREADABLE = None

MASK = "•••"
ALL_FLOWS = "*"
SHORTEST_SECRET = 3  # shorter values stand everywhere in a message, and tell nothing
ROLES = ("viewer", "operator", "admin")
QUOTING = frozenset({f"{PREFIX}message", f"{PREFIX}trace"})  # headers of an error record that say what happened
_KEY = "$key"
_HEADERS = "$headers."


def sees_all(role: str, lowest: str) -> bool:
    """Whether a role sees masked fields."""
    return ROLES.index(role) >= ROLES.index(lowest)


class Masks:
    """The masks of all flows, for a role that may not see everything."""

    def __init__(self, masked: Mapping[str, Iterable[str]]) -> None:
        self._masked = {flow: tuple(paths) for flow, paths in masked.items()}
        self._masks: dict[str, Mask] = {}

    def of(self, flow: str) -> Mask:
        if flow not in self._masks:
            self._masks[flow] = Mask.of((*self._masked.get(ALL_FLOWS, ()), *self._masked.get(flow, ())))
        return self._masks[flow]

    def __bool__(self) -> bool:
        return any(self._masked.values())


NO_MASKS = Masks({})


@dataclass(frozen=True, slots=True)
class Mask:
    """The fields of one flow that are hidden."""

    paths: tuple[tuple[str, ...], ...] = ()
    headers: frozenset[str] = frozenset()
    hides_key: bool = False

    @classmethod
    def of(cls, paths: Iterable[str]) -> Mask:
        given = list(dict.fromkeys(paths))
        return cls(
            tuple(tuple(path.split(".")) for path in given if not path.startswith("$")),
            frozenset(path.removeprefix(_HEADERS) for path in given if path.startswith(_HEADERS)),
            _KEY in given,
        )

    def __bool__(self) -> bool:
        return bool(self.paths or self.headers or self.hides_key)

    def value(self, body: bytes | None) -> bytes | None:
        """The body with its fields hidden; one that is no JSON object is hidden whole."""
        if body is None or not self.paths:
            return body
        document = _document(body)
        if document is None:
            return MASK.encode()
        for path in self.paths:
            _hide(document, path)
        return orjson.dumps(document)

    def hides(self, field: str) -> bool:
        """Whether a field, by its path, is hidden, lies in what is, or holds something that is."""
        given = tuple(field.split("."))
        return any(given[: len(path)] == path[: len(given)] for path in self.paths)

    def key(self, key: bytes | None) -> bytes | None:
        return MASK.encode() if self.hides_key and key is not None else key

    def header_values(self, headers: Headers, bodies: Iterable[bytes | None] = (), key: bytes | None = None) -> Headers:
        """With those hidden that are named, and what others quote of the record: an error record has its message."""
        known = list(bodies)

        def shown(name: str, value: bytes | None) -> bytes | None:
            if name in self.headers:
                return MASK.encode()
            if value is None or name not in QUOTING:
                return value
            return self.text(value.decode("utf-8", "replace"), known, key, headers).encode()

        return tuple((name, shown(name, value)) for name, value in headers)

    def text(self, said: str, bodies: Iterable[bytes | None], key: bytes | None = None, headers: Headers = ()) -> str:
        """A message with all hidden values of a record taken out, as it was and as it was edited.

        Without any body, or with one that cannot be taken apart, nobody can tell which they are: all of the message is
        hidden.
        """
        known = [body for body in bodies if body is not None]
        if self.paths and (not known or any(_document(body) is None for body in known)):
            return MASK
        secrets = {secret for body in known for secret in self._secrets(body)} | self._beside(key, headers)
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) >= SHORTEST_SECRET:
                said = said.replace(secret, MASK)
        return said

    def _secrets(self, body: bytes) -> set[str]:
        document = _document(body)
        return {text for path in self.paths for value in _values(document, path) for text in _spelled(value)}

    def _beside(self, key: bytes | None, headers: Headers) -> set[str]:
        found = {(value or b"").decode("utf-8", "replace") for name, value in headers if name in self.headers}
        return found | ({key.decode("utf-8", "replace")} if self.hides_key and key else set())


def read_shallow(body: bytes) -> Any:
    """What the body says; None also for what is no JSON, or is nested too deep to be taken apart."""
    try:
        document = orjson.loads(body)
        if body.count(b"[") + body.count(b"{") >= DEPTH:  # only then it may be
            orjson.dumps(document)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return UNREADABLE
    return document


def _document(body: bytes) -> Any:
    document = read_shallow(body)
    return document if isinstance(document, dict) else None


def _hide(value: Any, path: tuple[str, ...]) -> None:
    if isinstance(value, list):
        for each in value:
            _hide(each, path)
    elif isinstance(value, dict) and path[0] in value:
        if len(path) == 1:
            value[path[0]] = MASK
        elif isinstance(value[path[0]], dict | list):
            _hide(value[path[0]], path[1:])
        else:
            value[path[0]] = MASK  # another type than expected where something secret is below: hidden as well


def _values(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    if isinstance(value, list):
        for each in value:
            yield from _values(each, path)
    elif isinstance(value, dict) and path[0] in value:
        if len(path) == 1 or not isinstance(value[path[0]], dict | list):
            yield value[path[0]]
        else:
            yield from _values(value[path[0]], path[1:])


def _spelled(value: Any) -> Iterator[str]:
    """A value in the ways in which a message may quote it."""
    if isinstance(value, dict | list):
        yield orjson.dumps(value).decode()
        yield from (text for each in (value.values() if isinstance(value, dict) else value) for text in _spelled(each))
    elif isinstance(value, str):
        yield value
        yield orjson.dumps(value).decode()[1:-1]
    elif value is not None and not isinstance(value, bool):
        yield str(value)
        yield orjson.dumps(value).decode()
