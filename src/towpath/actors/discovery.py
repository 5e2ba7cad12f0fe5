"""Finding actors: all classes that the modules of the setting `actors.modules` define."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from towpath.actors.actor import Actor
from towpath.actors.definition import Definition, define
from towpath.errors import BadActor
from towpath.user_code import import_user_module


@dataclass(frozen=True, slots=True)
class Found:
    """An actor's class, and the module or file that it was found in."""

    place: str
    cls: type[Actor]
    definition: Definition


def discover(places: Iterable[str], directory: Path) -> dict[str, Found]:
    """The actors of modules and `.py` files, by name, seen from a directory; `BadActor` says what is wrong."""
    found: dict[str, Found] = {}
    for place in dict.fromkeys(places):
        for each in actors_in(place, directory):
            other = found.setdefault(each.definition.name, each)
            if other.cls is not each.cls:
                raise BadActor(
                    f"two actors are called {each.definition.name!r}: {other.cls.__name__} in {other.place} and "
                    f"{each.cls.__name__} in {place}; give one of them another `name`"
                )
    return found


def actors_in(place: str, directory: Path) -> list[Found]:
    """The actors that one module or file defines, in the order of its code."""
    module = import_user_module(place, directory, BadActor).module
    classes = list(dict.fromkeys(each for each in vars(module).values() if _is_of(each, module)))
    if not classes:
        raise BadActor(f"{place} has no actor; write a class that derives from towpath.actors.Actor")
    return [Found(place, cls, _defined(place, cls)) for cls in classes]


def _is_of(value: object, module: ModuleType) -> bool:
    """Whether it is an actor that can run, of this module and not only imported there; a package has its parts'."""
    if not (isinstance(value, type) and issubclass(value, Actor)) or inspect.isabstract(value):
        return False
    return f"{value.__module__}.".startswith(f"{module.__name__}.")


def _defined(place: str, cls: type[Actor]) -> Definition:
    try:
        return define(cls)
    except BadActor as error:
        raise BadActor(f"{place}: {error}") from error
