"""Where the fields of an object stand in its text. Every text here is known to be valid JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from operator import itemgetter

import msgspec
import orjson
from msgspec.structs import astuple

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_KEY = re.compile(rb"[\s,]*(" + _STRING + rb")\s*:\s*")
_SCALAR = re.compile(_STRING + rb"|[^\s,\]}]+")
_BRACKET = re.compile(_STRING + rb"|[\[{\]}]")
_NAME_OR_BRACE = re.compile(rb"(" + _STRING + rb")(\s*:)?|[{}]")
_COLON = re.compile(rb"\s*:\s*")
_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")
_COLON_BYTE, _BACKSLASH = b":\\"

_WORTH_A_CUTTER = 8  # texts

SPACE = b" \t\n\r"


# One field of an object: its name, where name and value start, and where the value ends.
Member = tuple[str, int, int, int]


def members(text: bytes) -> Iterator[Member]:
    """All fields of the outermost object, in order, also those of the same name."""
    at = text.index(b"{") + 1
    while key := _KEY.match(text, at):
        at = _end_of_value(text, key.end())
        yield _unescaped(key[1]), key.start(1), key.end(), at


def first_repeated(text: bytes) -> tuple[str, int] | None:
    """The first name that stands twice in one object at any depth, and the offset of the second; None if there is none.

    Names are compared as they read, not as they are spelt: `"a"` and `"\\u0061"` are the same.
    """
    open_objects: list[set[str]] = []
    for token in _NAME_OR_BRACE.finditer(text):
        if token[2] is not None:
            name = _unescaped(token[1])
            if name in open_objects[-1]:
                return name, token.start()
            open_objects[-1].add(name)
        elif token[1] is None:
            if token[0] == b"{":
                open_objects.append(set())
            else:
                open_objects.pop()
    return None


def offset_of_depth(text: bytes, depth: int) -> int:
    """Where an object or array opens that lies within `depth` others; the end of the text if none does."""
    level = 0
    for token in _BRACKET.finditer(text):
        if token[0] in (b"{", b"["):
            level += 1
            if level > depth:
                return token.start()
        elif token[0] in (b"}", b"]"):
            level -= 1
    return len(text)


def _end_of_value(text: bytes, start: int) -> int:
    if text[start] not in b"[{":
        scalar = _SCALAR.match(text, start)
        assert scalar is not None  # noqa: S101 -- the text is valid JSON
        return scalar.end()
    level = 0
    for token in _BRACKET.finditer(text, start):
        if token[0] in (b"{", b"["):
            level += 1
        elif token[0] in (b"}", b"]"):
            level -= 1
            if not level:
                return token.end()
    raise ValueError("an object or array is not closed")


@lru_cache(maxsize=1024)
def spelt(name: str) -> bytes:
    """A name as it is written anew."""
    return orjson.dumps(name)


def _unescaped(token: bytes) -> str:
    if _BACKSLASH in token:
        name: str = orjson.loads(token)
        return name
    return token[1:-1].decode()


class Finder:
    """Finds fields of certain names in many texts.

    Most texts spell a name in one way only, and have it once. All that is left to know then is whether this is a field
    of the outermost object, and how long its value is: msgspec tells both, without building the rest. Any other text
    is gone through field by field, and so are the first few, for it takes time to make ready for msgspec.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._spelt = [spelt(name) for name in self._names]
        # With a comma or colon in it, a name could also be what stands between two strings.
        self._is_plain = not any(mark in token for token in self._spelt for mark in (b"\\", b",", b":"))
        self._cut: Callable[[bytes], msgspec.Struct] | None = None
        self._gone_through_so_far = 0
        self._is_ascii = all(map(str.isascii, self._names))

    def find(self, text: bytes) -> list[Member]:
        """The fields of these names that the outermost object has, in order."""
        if self._cut is None or (_BACKSLASH in text and self._may_be_escaped(text)):
            return self._gone_through(text)
        starts = [text.find(token) for token in self._spelt]
        if max(starts) < 0:
            return []
        found: list[Member] = []
        for place, token in enumerate(astuple(self._cut(text))):
            if length := len(memoryview(token)):
                start = starts[place]
                after = start + len(self._spelt[place])
                if text.find(self._spelt[place], after) >= 0:
                    return self._gone_through(text)
                value = _after_colon(text, after)
                found.append((self._names[place], start, value, value + length))
        if len(found) > 1:
            found.sort(key=_start)
        return found

    def _may_be_escaped(self, text: bytes) -> bool:
        """Whether one of the names may be spelt with escapes, or stand after an escaped quote within a string."""
        if not self._is_ascii or _ESCAPED_ASCII.search(text):
            return True
        return any(b"\\" + token in text for token in self._spelt)

    def _gone_through(self, text: bytes) -> list[Member]:
        self._gone_through_so_far += 1
        if self._cut is None and self._is_plain and self._gone_through_so_far >= _WORTH_A_CUTTER:
            self._cut = _cutter(self._names).decode
        return [member for member in members(text) if member[0] in self._names]


_start = itemgetter(1)


def _after_colon(text: bytes, at: int) -> int:
    if text[at] == _COLON_BYTE and text[at + 1] not in SPACE:
        return at + 1
    colon = _COLON.match(text, at)
    assert colon is not None  # noqa: S101 -- what is before it is the name of a field
    return colon.end()


@lru_cache(maxsize=256)
def _cutter(names: tuple[str, ...]) -> msgspec.json.Decoder[msgspec.Struct]:
    """Reads only these fields of an object, as the texts of their values; empty where a field is missing."""
    fields = [(f"f{place}", msgspec.Raw, msgspec.Raw(b"")) for place in range(len(names))]
    struct = msgspec.defstruct("Cut", fields, rename={f"f{place}": name for place, name in enumerate(names)})
    return msgspec.json.Decoder(struct)
