"""A small language for saying which errors a rule is for: `value.country = 'DE' and attempts < 3`.

Names are paths: `value.order.lines[0].sku` in a JSON body, `key`, `headers.source`, and `message`, `step`, `code`,
`exception` and `attempts` of the failure; `headers."content-type"` where a name holds other characters. There are
`=`, `!=`, `<`, `<=`, `>`, `>=`, `in (…)`, `like` with % and _, `contains`, `is null`, `and`, `or`, `not`, numbers,
texts in single quotes, `true`, `false` and `null`.

A comparison with something that is not there, or of another kind, is false, and so is its `!=`: ask `is null`. An
expression is read once and cannot loop, call or change anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from towpath.expression_parser import Parser, Test

NAMES = ("value", "key", "headers", "message", "step", "code", "exception", "attempts")


class Unreadable(Exception):
    """Raised by those who give values: the record is not what the expression is about, so it is not true of it."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was read. Equal ones have the same text."""

    text: str
    names: frozenset[str] = field(compare=False)
    _test: Test = field(compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises `BadExpression` with the place at which it stops being one."""
        parser = Parser(text, NAMES)
        return cls(text, parser.names(), parser.test())

    def holds(self, get: Callable[[str], Any]) -> bool:
        """Whether it is true, given what gives the values of its names. Raises nothing but `Unreadable`."""
        return self._test(get)

    def holds_of(self, values: Mapping[str, Any]) -> bool:
        """The same with all values at hand."""
        return self._test(values.get)
