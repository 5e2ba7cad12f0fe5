"""Writes the changes that a step made to a document into the original text of its record.

`changes` compares two documents by value; `splice` puts the changed fields into the text. All other bytes stay as they
were: numbers (`1.0`, `1E+2`), the order of fields, escapes, nested values and white space. New fields come at the end,
in order. To know where a field stands, the text is searched for its members (`members`, `MemberFinder`); every text
here is known to be valid JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import msgspec
import orjson
from msgspec.structs import astuple

from towpath.flow.documents.writer import write, write_column
from towpath.flow.failures import ErrorCode, RecordFailure, bounded

_MISSING = object()
_NESTED = (dict, list)

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_KEY = re.compile(rb"[\s,]*(" + _STRING + rb")\s*:\s*")
_SCALAR = re.compile(_STRING + rb"|[^\s,\]}]+")
_BRACKET = re.compile(_STRING + rb"|[\[{\]}]")
_NAME_OR_BRACE = re.compile(rb"(" + _STRING + rb")(\s*:)?|[{}]")
_COLON = re.compile(rb"\s*:\s*")
_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")
_COLON_BYTE, _BACKSLASH = b":\\"
(_QUOTE,) = b'"'
(_BRACE,) = b"}"

SPACE = b" \t\n\r"
_BEFORE_NONE = b"{" + SPACE

_WORTH_A_CUTTER = 8  # texts

# One field of an object: its name, where name and value start, and where the value ends.
Member = tuple[str, int, int, int]


def splice(text: bytes, changed: Mapping[str, Any], dropped: Collection[str] = ()) -> bytes:
    """The text of an object with some fields changed, added or dropped; `Unwritable` if JSON cannot hold a value.

    Of a name that stands twice the last is changed, for that is the one that is read; dropped, both are gone.
    """
    if not changed and not dropped:
        return text
    tokens = {name: write(value) for name, value in changed.items()}
    return _spliced(text, tokens, dropped, _finder((*changed, *dropped)))


def splice_rows(
    texts: Sequence[bytes | None],
    names: Sequence[str],
    columns: Sequence[Sequence[Any]],
    dropped: Collection[str] = (),
    *,
    step: str = "write",
) -> tuple[list[bytes | None], dict[int, RecordFailure]]:
    """Many texts with the same fields changed, each to its row of the columns; and the rows that cannot be written.

    A text that is None stays None.
    """
    if not names and not dropped:
        return list(texts), {}
    finder = MemberFinder((*names, *dropped))
    columns_of_tokens, failures = _written(names, columns, step)
    for name, column in columns_of_tokens.items():
        if len(column) != len(texts):
            raise ValueError(f"column {name!r} has {len(column)} values for {len(texts)} texts")
    addition = b",".join(spelt(name).replace(b"%", b"%%") + b":%b" for name in names)
    rows_of_tokens = list(zip(*columns_of_tokens.values(), strict=True)) if names else [()] * len(texts)
    spliced: list[bytes | None] = []
    for row, text in enumerate(texts):
        if text is None or row in failures:
            spliced.append(None)
            continue
        if _is_tight(text) and not finder.find(text):
            # Nothing but new fields, and a text that ends as most do.
            spliced.append(b"%b,%b}" % (text[:-1], addition % rows_of_tokens[row]) if names else text)
            continue
        tokens = dict(zip(names, rows_of_tokens[row], strict=True))
        spliced.append(_spliced(text, tokens, dropped, finder))
    return spliced, failures


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The fields that are new or have another value, and the names of those that are gone.

    Values are told apart strictly: `1`, `1.0` and `True` are three values. Hand a step `copied(before)`, not
    `before`: what a step changes in place could not be seen otherwise.
    """
    changed = {
        name: value
        for name, value in after.items()
        if (old := before.get(name, _MISSING)) is not value and not is_same(old, value)
    }
    return changed, [name for name in before if name not in after]


def copied(document: dict[str, Any]) -> dict[str, Any]:
    """A copy to hand to a step: it may change it in place, also within nested values, and `document` stays."""
    made = document.copy()
    for name, value in document.items():
        kind = type(value)
        if kind is dict or kind is list:
            made[name] = _copied(value)
    return made


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same in type and value, all the way down."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return one.keys() == other.keys() and all(is_same(value, other[name]) for name, value in one.items())
    if type(one) is list:
        return len(one) == len(other) and all(map(is_same, one, other))
    if type(one) is float:
        return repr(one) == repr(other)  # tells -0.0 from 0.0
    return bool(one == other)


@lru_cache(maxsize=256)
def _finder(names: tuple[str, ...]) -> MemberFinder:
    return MemberFinder(names)


def _written(
    names: Sequence[str], columns: Sequence[Sequence[Any]], step: str
) -> tuple[dict[str, list[bytes]], dict[int, RecordFailure]]:
    texts: dict[str, list[bytes]] = {}
    failures: dict[int, RecordFailure] = {}
    for name, column in zip(names, columns, strict=True):
        texts[name], errors = write_column(column)
        for row, error in errors.items():
            message = bounded(f"field {name!r}: {error}")
            failures.setdefault(row, RecordFailure(ErrorCode.TRANSFORM_FAILED, step, "Unwritable", message))
    return texts, failures


def _spliced(text: bytes, tokens: dict[str, bytes], dropped: Collection[str], finder: MemberFinder) -> bytes:
    """From the last field to the first, so that what was found further left stays where it is. Uses up `tokens`."""
    for name, start, value, end in reversed(finder.find(text)):
        if name in tokens:
            text = text[:value] + tokens.pop(name) + text[end:]
        elif name in dropped:
            text = _without(text, start, end)
    return _with(text, tokens) if tokens else text


def _without(text: bytes, start: int, end: int) -> bytes:
    """A field cut out with the comma after it, or, if it is the last, with the one before it."""
    after = text[end:].lstrip(SPACE)
    if after[:1] == b",":
        return text[:start] + after[1:].lstrip(SPACE)
    bare = text[:start].rstrip(SPACE)
    return (bare[:-1] if bare[-1:] == b"," else text[:start]) + text[end:]


def _with(text: bytes, tokens: Mapping[str, bytes]) -> bytes:
    """New fields after the last one."""
    body = text[: text.rindex(b"}")].rstrip(SPACE)
    added = [spelt(name) + b":" + token for name, token in tokens.items()]
    comma = b"," if _QUOTE in body else b""
    return body + comma + b",".join(added) + text[len(body) :]


def _is_tight(text: bytes) -> bool:
    """Whether the text ends with the brace of an object that has fields, and nothing stands between."""
    return text[-1] == _BRACE and text[-2] not in _BEFORE_NONE


def _copied(value: Any) -> Any:
    if type(value) is dict:
        return {name: _copied(inner) if type(inner) in _NESTED else inner for name, inner in value.items()}
    return [_copied(inner) if type(inner) in _NESTED else inner for inner in value]


class MemberFinder:
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
            found.sort(key=itemgetter(1))  # where the name starts
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


@lru_cache(maxsize=256)
def _cutter(names: tuple[str, ...]) -> msgspec.json.Decoder[msgspec.Struct]:
    """Reads only these fields of an object, as the texts of their values; empty where a field is missing."""
    fields = [(f"f{place}", msgspec.Raw, msgspec.Raw(b"")) for place in range(len(names))]
    struct = msgspec.defstruct("Cut", fields, rename={f"f{place}": name for place, name in enumerate(names)})
    return msgspec.json.Decoder(struct)


def _after_colon(text: bytes, at: int) -> int:
    if text[at] == _COLON_BYTE and text[at + 1] not in SPACE:
        return at + 1
    colon = _COLON.match(text, at)
    assert colon is not None  # noqa: S101 -- what is before it is the name of a field
    return colon.end()


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
