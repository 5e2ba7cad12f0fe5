"""A small language for saying which errors a rule is for: `value.country = 'DE' and attempts < 3`.

Names are paths: `value.order.lines[0].sku` in a JSON body, `key`, `headers.source`, and `message`, `step`, `code`,
`exception` and `attempts` of the failure; `headers."content-type"` where a name holds other characters. There are
`=`, `!=`, `<`, `<=`, `>`, `>=`, `in (…)`, `like` with % and _, `contains`, `is null`, `and`, `or`, `not`, numbers,
texts in single quotes, `true`, `false` and `null`.

A comparison with something that is not there, or of another kind, is false, and so is its `!=`: ask `is null`. An
expression is read once, by recursive descent, bounded in length and depth, so that this ends and never overflows. It
cannot loop, call or change anything.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from towpath.errors import BadExpression

LONGEST_TEXT = 2_000
DEEPEST = 50
NAMES = ("value", "key", "headers", "message", "step", "code", "exception", "attempts")

Get = Callable[[str], Any]
Test = Callable[[Get], bool]
Value = Callable[[Get], Any]

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<quoted>\"[^\"]+\")"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_-]*)|(?P<sign><=|>=|!=|<>|==|[=<>().,\[\]]))"
)
_WORDS = frozenset({"and", "or", "not", "in", "like", "contains", "is", "null", "true", "false"})
_LITERALS = {"null": None, "true": True, "false": False}
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SIGNS = frozenset({"=", "==", "!=", "<>", *_ORDERS})


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was read. Equal ones have the same text."""

    text: str
    names: frozenset[str] = field(compare=False)
    _test: Test = field(compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises `BadExpression` with the place at which it stops being one."""
        parser = _Parser(text)
        return cls(text, frozenset(parser.used), parser.test)

    def holds(self, get: Callable[[str], Any]) -> bool:
        """Whether it is true, given what gives the values of its names. Raises nothing but `NotApplicable`."""
        return self._test(get)

    def holds_of(self, values: Mapping[str, Any]) -> bool:
        """The same with all values at hand."""
        return self._test(values.get)


class NotApplicable(Exception):
    """Raised by what supplies the values: the expression does not apply to this record, so it is not true of it."""


class _Token(NamedTuple):
    """A word, a sign, a number or a text, and where it begins."""

    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """The word in small letters if it is one of the language; otherwise empty."""
        return self.text.lower() if self.kind == "word" and self.text.lower() in _WORDS else ""


class _Parser:
    """Recursive descent, one method for each rank of the operators."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST_TEXT:
            raise BadExpression(f"an expression has at most {LONGEST_TEXT} characters", text, LONGEST_TEXT)
        self._text = text
        self.used: set[str] = set()  # the first names of its paths
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0
        self.test = self._or()
        if self._here.kind != "end":
            raise self._wrong("this is too much")

    # Moving along

    @property
    def _here(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        taken = self._here
        self._next += taken.kind != "end"
        return taken

    def _took(self, *wanted: str) -> bool:
        """Pass a word or a sign if it is the next one."""
        here = self._here
        is_it = here.word in wanted if here.word else here.kind == "sign" and here.text in wanted
        self._next += is_it
        return is_it

    def _expect(self, wanted: str) -> None:
        if not self._took(wanted):
            raise self._wrong(f"{wanted!r} is missing")

    def _wrong(self, why: str) -> BadExpression:
        return BadExpression(why, self._text, self._here.at)

    # Ranks

    def _or(self) -> Test:
        tests = [self._and()]
        while self._took("or"):
            tests.append(self._and())
        return tests[0] if len(tests) == 1 else lambda get: any(test(get) for test in tests)

    def _and(self) -> Test:
        tests = [self._not()]
        while self._took("and"):
            tests.append(self._not())
        return tests[0] if len(tests) == 1 else lambda get: all(test(get) for test in tests)

    def _not(self) -> Test:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._wrong(f"more than {DEEPEST} within each other")
        try:
            if self._took("not"):
                denied = self._not()
                return lambda get: not denied(get)
            if self._took("("):
                inner = self._or()
                self._expect(")")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Test:
        left = self._value()
        if self._took("is"):
            wants_null = not self._took("not")
            self._expect("null")
            return lambda get: (left(get) is None) == wants_null
        is_denied = self._took("not")
        test = self._relation(left, is_denied)
        return (lambda get: not test(get)) if is_denied else test

    def _relation(self, left: Value, is_denied: bool) -> Test:
        if self._took("in"):
            return _member(left, self._list())
        if self._took("like"):
            pattern = self._literal_text("like")
            return lambda get: isinstance(text := left(get), str) and _is_like(text, pattern)
        if self._took("contains"):
            return _containing(left, self._value())
        sign = self._here.text
        if is_denied or self._here.kind != "sign" or sign not in _SIGNS:
            raise self._wrong("a comparison is missing")
        self._take()
        return _compared(left, sign, self._value())

    # What stands in them

    def _value(self) -> Value:
        here = self._here
        match here.kind:
            case "number":
                number = _number(self._take().text)
                return lambda get: number
            case "text":
                text = _unquoted(self._take().text)
                return lambda get: text
            case "word" if here.word in _LITERALS:
                constant = _LITERALS[self._take().word]
                return lambda get: constant
            case "word" if not here.word:
                return self._path()
        raise self._wrong("a name, a number or a text in single quotes is missing")

    def _path(self) -> Value:
        first = self._here
        if first.text not in NAMES:
            raise self._wrong(f"{first.text!r} is none of {', '.join(NAMES)}; texts are in single quotes")
        name = self._take().text
        self.used.add(name)
        steps: list[str | int] = []
        while True:
            if self._took("."):
                steps.append(self._step_name())
            elif self._took("["):
                steps.append(self._step_number())
                self._expect("]")
            else:
                break
        if not steps:
            return lambda get: get(name)
        return lambda get: _walked(get(name), steps)

    def _step_name(self) -> str:
        if self._here.kind not in ("word", "quoted"):
            raise self._wrong("a name is missing")
        return self._take().text.strip('"')

    def _step_number(self) -> int:
        if self._here.kind != "number" or not self._here.text.isdigit():
            raise self._wrong("a whole number is missing")
        return int(self._take().text)

    def _list(self) -> list[Any]:
        self._expect("(")
        found = [self._literal()]
        while self._took(","):
            found.append(self._literal())
        self._expect(")")
        return found

    def _literal(self) -> Any:
        if self._here.kind not in ("number", "text") and self._here.word not in _LITERALS:
            raise self._wrong("a number or a text in single quotes is missing")
        return self._value()(lambda name: None)

    def _literal_text(self, after: str) -> str:
        if self._here.kind != "text":
            raise self._wrong(f"{after} needs a text in single quotes")
        return _unquoted(self._take().text)


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while text[at:].strip():
        read = _TOKEN.match(text, at)
        if read is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise BadExpression("this cannot be read", text, start)
        kind = read.lastgroup or ""
        found.append(_Token(kind, read[kind], read.start(kind)))
        at = read.end()
    return [*found, _Token("end", "", len(text))]


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _walked(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        match step, value:
            case str(), dict():
                value = value.get(step)
            case int(), list() if step < len(value):
                value = value[step]
            case _:
                return None
    return value


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "truth"
        case int() | float():
            return "number"
        case str():
            return "text"
    return "other"


def _are_equal(one: Any, other: Any) -> bool:
    return _kind(one) == _kind(other) and bool(one == other)


def _compared(left: Value, sign: str, right: Value) -> Test:
    if sign in ("=", "=="):
        return lambda get: _both(left(get), right(get), _are_equal)
    if sign in ("!=", "<>"):
        return lambda get: _both(left(get), right(get), lambda one, other: not _are_equal(one, other))
    order = _ORDERS[sign]
    return lambda get: _both(left(get), right(get), lambda one, other: _is_ordered(one, other) and order(one, other))


def _both(one: Any, other: Any, test: Callable[[Any, Any], bool]) -> bool:
    return one is not None and other is not None and test(one, other)


def _is_ordered(one: Any, other: Any) -> bool:
    return _kind(one) == _kind(other) in ("number", "text")


def _member(left: Value, members: list[Any]) -> Test:
    return lambda get: (value := left(get)) is not None and any(_are_equal(value, each) for each in members)


def _containing(left: Value, right: Value) -> Test:
    def test(get: Get) -> bool:
        whole, part = left(get), right(get)
        if isinstance(whole, str):
            return isinstance(part, str) and part in whole
        return isinstance(whole, list) and part is not None and any(_are_equal(each, part) for each in whole)

    return test


def _is_like(text: str, pattern: str) -> bool:
    """Whether the text matches, with % for anything and _ for one character, in time bounded for every pattern."""
    at = star = 0
    place, mark = 0, -1
    while at < len(text):
        if place < len(pattern) and pattern[place] == "%":
            mark, star = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in ("_", text[at]):
            at, place = at + 1, place + 1
        elif mark >= 0:
            star += 1
            at, place = star, mark + 1
        else:
            return False
    return all(each == "%" for each in pattern[place:])
