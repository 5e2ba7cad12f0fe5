"""Names with fields in them: `views-{day}` is another name for each record."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from string import Formatter
from typing import Any

from towpath.errors import BadFlow

MOST_REMEMBERED = 1_000
_SCALARS = (str, int, float, Decimal, date)


class Template:
    """A text with `{field}`s of the document, `{{` and `}}` for braces. Fixed when it has none.

    A field must be a text, number, boolean, date or time that is there and not null: `NotInTemplate` otherwise.
    """

    __slots__ = ("fields", "text")

    def __init__(self, text: str) -> None:
        if not text:
            raise BadFlow("a name is empty; give at least one character")
        self.text = text
        fields = []
        try:
            for _, name, spec, conversion in Formatter().parse(text):
                if name is None:
                    continue
                if not name or spec or conversion or not name.replace("_", "a").isalnum():
                    raise BadFlow(f"{text!r}: write {{field}} with the name of a field, nothing else")
                fields.append(name)
        except ValueError as error:
            raise BadFlow(f"{text!r} cannot be read: {error}; a brace that is meant is written twice") from error
        self.fields = tuple(fields)

    @property
    def is_fixed(self) -> bool:
        return not self.fields

    def filler(self) -> Callable[[Mapping[str, Any]], str]:
        """A function from a document to the filled text."""
        if self.is_fixed:
            fixed = self.text.format()
            return lambda document: fixed
        if len(self.fields) == 1:
            return _remembering(self._fill_of(), self.fields[0])
        return self._fill_of()

    def _fill_of(self) -> Callable[[Mapping[str, Any]], str]:
        text, fields = self.text, self.fields

        def fill(document: Mapping[str, Any]) -> str:
            found = {}
            for name in fields:
                value = document.get(name)
                if not isinstance(value, _SCALARS):
                    raise NotInTemplate(text, name, value)
                found[name] = str(value).lower() if value is True or value is False else value
            return text.format_map(found)

        return fill

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Template({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[type[Template], tuple[str]]:
        return Template, (self.text,)


class NotInTemplate(ValueError):
    """A document lacks what a name is made of."""

    def __init__(self, text: str, field: str, value: object) -> None:
        kind = type(value).__name__
        what = "has no value" if value is None else f"is {kind}, not text, number, boolean, date or time"
        super().__init__(f"{text!r} cannot be filled: field {field!r} {what}")


def is_of(template: Template, name: str) -> bool:
    """Whether a name may have been made from this one by filling in fields."""
    parts = Formatter().parse(template.text)
    pattern = "".join(re.escape(literal) + ("" if field is None else ".*") for literal, field, _, _ in parts)
    return re.fullmatch(pattern, name, re.DOTALL) is not None


def starred(template: Template) -> str:
    """The name with a star for each field: what all its targets have in common."""
    parts = Formatter().parse(template.text)
    return "".join(literal + ("*" if field is not None else "") for literal, field, _, _ in parts)


def _remembering(fill: Callable[[Mapping[str, Any]], str], field: str) -> Callable[[Mapping[str, Any]], str]:
    """Names of targets are few: a text that was filled in before is not filled in again."""
    known: dict[str, str] = {}

    def filled(document: Mapping[str, Any]) -> str:
        value = document.get(field)
        if type(value) is not str:
            return fill(document)
        found = known.get(value)
        if found is None:
            found = fill(document)
            if len(known) < MOST_REMEMBERED:
                known[value] = found
        return found

    return filled
