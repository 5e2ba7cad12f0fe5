"""A form for the fields of a state, by their types; and what was filled in, as JSON again.

Where the code of an actor is here, its types say what a field may be. Elsewhere the template of the state does, which
another process has written down. What no field of a form can hold is written as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Any

from towpath.actors.registry import KnownClass
from towpath.errors import BadPayload, BadValue
from towpath.queue.payload import from_json
from towpath.web.auth import FormData

PREFIX = "f."
WHOLE = "fields"  # all of them at once, as JSON; it counts instead of the single ones
DEEPEST = 4


class FieldWidget(StrEnum):
    """How a field is filled in."""

    TEXT = "text"
    NUMBER = "number"
    TICK = "tick"
    CHOICE = "choice"
    LINES = "lines"  # a list of texts, one a line
    JSON = "json"  # anything


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form."""

    path: tuple[str, ...]
    kind: FieldWidget
    value: str
    choices: tuple[str, ...] = ()
    is_needed: bool = False  # there is no default
    may_be_none: bool = False  # empty is none
    hint: str = ""

    @property
    def name(self) -> str:
        return PREFIX + ".".join(self.path)

    @property
    def label(self) -> str:
        return self.path[-1].replace("_", " ")

    @property
    def group(self) -> str:
        """What it is a part of."""
        return " ".join(self.path[:-1]).replace("_", " ")

    def read(self, text: str) -> Any:
        """What somebody has filled in."""
        if self.kind is FieldWidget.TICK:
            return text != ""
        if self.may_be_none and not text.strip():
            return None
        match self.kind:
            case FieldWidget.NUMBER | FieldWidget.JSON:
                return self._parsed(text)
            case FieldWidget.CHOICE:
                return json.loads(text) if text in self.choices else self._refuse(text)
            case FieldWidget.LINES:
                return [line.strip() for line in text.splitlines() if line.strip()]
            case _:
                return text

    def _parsed(self, text: str) -> Any:
        try:
            found = from_json(text)
        except BadPayload:
            self._refuse(text)
        if self.kind is FieldWidget.NUMBER and (isinstance(found, bool) or not isinstance(found, int | float)):
            self._refuse(text)
        return found

    def _refuse(self, text: str) -> Any:
        wanted = {FieldWidget.NUMBER: "a number", FieldWidget.CHOICE: "one of its values"}.get(self.kind, "JSON")
        raise BadValue(f"{'.'.join(self.path)}: {text[:80]!r} is not {wanted}")


def fields_of(known: KnownClass, state: str, values: Any = None) -> list[FormField]:
    """The fields of a state, filled with its defaults or with what is given."""
    template = known.state(state)["template"]
    if known.definition is None:
        return _of_template(template, values)
    schema = known.definition.kind(state).adapter.json_schema()
    return list(_of_schema(schema, schema.get("$defs", {}), values, ()))


def grouped(fields: Sequence[FormField]) -> list[tuple[str, list[FormField]]]:
    """Those that are parts of the same thing together, in their order."""
    return [(group, list(found)) for group, found in groupby(fields, lambda each: each.group)]


def filled(fields: Sequence[FormField], form: FormData) -> list[FormField]:
    """The same with what somebody has filled in, for a page that shows it again."""
    return [replace(each, value=form.lines(each.name)) for each in fields]


def read_form(fields: Sequence[FormField], form: FormData) -> Any:
    """What was filled in; raises `BadValue`, or `BadPayload` for what is no JSON."""
    whole = form.lines(WHOLE).strip()
    if whole:
        return from_json(whole, "state")
    found: dict[str, Any] = {}
    for each in fields:
        at = found
        for name in each.path[:-1]:
            at = at.setdefault(name, {})
        at[each.path[-1]] = each.read(form.lines(each.name))
    return found


def _of_template(template: Any, values: Any) -> list[FormField]:
    if not isinstance(template, dict):
        return []
    given = values if isinstance(values, dict) else template
    return [_sampled(name, sample, given.get(name, sample)) for name, sample in template.items()]


def _sampled(name: str, sample: Any, value: Any) -> FormField:
    """By the type of a value that fits."""
    is_hint = isinstance(sample, str) and sample.startswith("<") and sample.endswith(">")
    hint = sample.strip("<>") if is_hint else ""
    match sample:
        case bool():
            return FormField((name,), FieldWidget.TICK, "yes" if value else "")
        case int() | float():
            return FormField((name,), FieldWidget.NUMBER, _json(value), is_needed=True)
        case str():
            return FormField((name,), FieldWidget.TEXT, "" if is_hint and value == sample else str(value), hint=hint)
        case None:
            return FormField(
                (name,), FieldWidget.JSON, "" if value is None else _json(value), may_be_none=True, hint="JSON"
            )
    return FormField((name,), FieldWidget.JSON, _json(value), is_needed=True, hint="JSON")


def _of_schema(
    schema: Mapping[str, Any], known: Mapping[str, Any], values: Any, path: tuple[str, ...]
) -> Iterator[FormField]:
    needed = schema.get("required", ())
    given = values if isinstance(values, dict) else {}
    for name, each in schema.get("properties", {}).items():
        here, found = (*path, name), _resolved(each, known)
        value = given.get(name, each.get("default", found.get("default")))
        has_value = name in given or "default" in each or "default" in found
        if found.get("properties") and len(here) < DEEPEST:
            yield from _of_schema(found, known, value, here)
        else:
            yield _typed(here, found, known, value, has_value=has_value, is_needed=name in needed)


def _typed(
    path: tuple[str, ...],
    schema: Mapping[str, Any],
    known: Mapping[str, Any],
    value: Any,
    *,
    has_value: bool,
    is_needed: bool,
) -> FormField:
    """By what its type says."""
    several = [_resolved(each, known) for each in schema.get("anyOf", schema.get("oneOf", ()))]
    may_be_none = any(each.get("type") == "null" for each in several)
    kinds = [each for each in several if each.get("type") != "null"] or [schema]
    one = kinds[0] if len(kinds) == 1 else next((each for each in kinds if each.get("type") == "string"), {})
    told = str(schema.get("description", one.get("description", "")))
    base = FormField(
        path, FieldWidget.JSON, "", is_needed=is_needed and not may_be_none, may_be_none=may_be_none, hint=told
    )
    values = one.get("enum", [one["const"]] if "const" in one else [])
    if values:
        choices = tuple(_json(each) for each in values)
        return replace(
            base,
            kind=FieldWidget.CHOICE,
            choices=choices,
            value=_json(value) if has_value and value is not None else "",
        )
    match one.get("type"):
        case "boolean" if not may_be_none:
            return replace(base, kind=FieldWidget.TICK, value="yes" if value else "", is_needed=False)
        case "boolean":
            return replace(
                base, kind=FieldWidget.CHOICE, choices=("true", "false"), value="" if value is None else _json(value)
            )
        case "integer" | "number":
            return replace(base, kind=FieldWidget.NUMBER, value="" if value is None else _json(value))
        case "string":
            hint = " ".join(filter(None, (told, str(one.get("format", "")))))
            return replace(base, kind=FieldWidget.TEXT, value="" if value is None else str(value), hint=hint)
        case "array" if one.get("items", {}).get("type") == "string" and _fits_lines(value):
            lines = "\n".join(value or ())
            return replace(base, kind=FieldWidget.LINES, value=lines, is_needed=False, hint=told or "one a line")
    sample = {"array": "[]", "object": "{}"}.get(str(one.get("type")), "null")
    text = _json(value) if has_value and value is not None else "" if may_be_none else sample
    return replace(base, value=text, hint=told or "JSON", is_needed=not may_be_none)


def _fits_lines(value: Any) -> bool:
    """Whether a list of texts comes back from lines as it was."""
    return value is None or all(
        isinstance(each, str) and each == each.strip() and len(each.splitlines()) == 1 for each in value
    )


def _resolved(schema: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference stands for."""
    reference = schema.get("$ref")
    if reference is None and len(schema.get("allOf", ())) == 1:
        reference = schema["allOf"][0].get("$ref")
    if reference is None:
        return schema
    target: Mapping[str, Any] = known.get(reference.rpartition("/")[2], {})
    return {
        **_resolved(target, known),
        **{name: each for name, each in schema.items() if name not in ("$ref", "allOf")},
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
