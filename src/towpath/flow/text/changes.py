"""What a step changed in a document, told by value and not by how it was built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MISSING = object()


def copied(document: dict[str, Any]) -> dict[str, Any]:
    """A copy to hand to a step: it may change it in place, also within nested values, and `document` stays."""
    made = document.copy()
    for name, value in document.items():
        kind = type(value)
        if kind is dict or kind is list:
            made[name] = _copied(value)
    return made


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


def _copied(value: Any) -> Any:
    if type(value) is dict:
        return {name: _copied(inner) if type(inner) in _NESTED else inner for name, inner in value.items()}
    return [_copied(inner) if type(inner) in _NESTED else inner for inner in value]


_NESTED = (dict, list)
