"""Options that several commands share, written down once: a dataclass, whose fields are the options.

A command that is `spread` takes the dataclass as one parameter; Typer sees its fields in that place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")


def spread(command: Callable[..., T]) -> Callable[..., T]:
    """The command with an option for each field of those of its parameters that are dataclasses."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint) and isinstance(hint, type)}

    @wraps(command)
    def called(**given: Any) -> T:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return command(**given)

    parameters = [
        each for one in inspect.signature(command).parameters.values() for each in _spread(one, groups, hints)
    ]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def _spread(one: inspect.Parameter, groups: dict[str, type], hints: dict[str, Any]) -> Iterator[inspect.Parameter]:
    if one.name not in groups:
        yield one.replace(annotation=hints[one.name], kind=inspect.Parameter.KEYWORD_ONLY)
        return
    annotations = get_type_hints(groups[one.name], include_extras=True)
    for field in fields(groups[one.name]):
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=annotations[field.name]
        )


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default
