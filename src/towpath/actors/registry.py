"""The actors that are known here: defined in the configured modules, or recorded by other processes."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from towpath.actors.actor import Actor
from towpath.actors.browser import ActorBrowser
from towpath.actors.definition import Definition, define
from towpath.actors.graph.shape import shape_of
from towpath.actors.instance import Instance
from towpath.actors.instance_store import KnownActor
from towpath.actors.turn import ActorStart
from towpath.core.user_code import import_user_module
from towpath.errors import BadActor, BadState, UnknownActor


@dataclass(frozen=True, slots=True)
class KnownClass:
    """An actor's class as it is known here. Without a definition its code is not here; another process recorded it."""

    name: str
    about: str
    shape: dict[str, Any]
    is_enabled: bool = True
    definition: Definition | None = None

    def state(self, name: str | None) -> dict[str, Any]:
        """One of its states, by default the first; raises `BadState`."""
        wanted = self.shape["first"] if name is None else name
        states: dict[str, dict[str, Any]] = {each["name"]: each for each in self.shape["states"]}
        if wanted not in states:
            raise BadState(f"{wanted!r} is no state of {self.name}; its states: {', '.join(states)}")
        return states[wanted]

    def checked(self, state: str, fields: Any) -> Any:
        """The fields of a state, checked as far as what is known of the class allows; raises `BadState`."""
        template = self.state(state)["template"]
        if not isinstance(fields, dict):
            sample = json.dumps(template, ensure_ascii=False)
            raise BadState(f"this is no {state}: its fields are a JSON object, such as {sample}")
        strange = sorted(fields.keys() - template.keys()) if isinstance(template, dict) else []
        if strange:
            fits = ", ".join(template)
            raise BadState(f"this is no {state}: it has no field {', '.join(strange)}; its fields: {fits}")
        if self.definition is None:
            return fields
        kind = self.definition.kind(state)
        return kind.write(kind.read(fields))

    def start(self, instance: str, state: str | None, fields: Any) -> ActorStart:
        """With a state that is named, or the first one; raises `BadState`."""
        function = self.state(state)["name"]
        return ActorStart(self.name, instance, function, self.checked(function, fields))


class BrokenModule(NamedTuple):
    """A module whose actors are not known, and why."""

    module: str
    error: str


@dataclass(frozen=True, slots=True)
class DiscoveredActor:
    """An actor's class, and the module or file that it was found in."""

    place: str
    cls: type[Actor]
    definition: Definition


def discover(places: Iterable[str], directory: Path) -> dict[str, DiscoveredActor]:
    """The actors of modules and `.py` files, by name, seen from a directory; `BadActor` says what is wrong."""
    found: dict[str, DiscoveredActor] = {}
    for place in dict.fromkeys(places):
        for each in actors_in(place, directory):
            other = found.setdefault(each.definition.name, each)
            if other.cls is not each.cls:
                raise BadActor(
                    f"two actors are called {each.definition.name!r}: {other.cls.__name__} in {other.place} and "
                    f"{each.cls.__name__} in {place}; give one of them another `name`"
                )
    return found


def found_in(places: Iterable[str], directory: Path) -> tuple[dict[str, DiscoveredActor], list[BrokenModule]]:
    """The actors of modules, seen from a directory. What is wrong with one does not hide the others."""
    found: dict[str, DiscoveredActor] = {}
    broken = []
    for place in dict.fromkeys(places):
        try:
            for each in actors_in(place, directory):
                found.setdefault(each.definition.name, each)
        except BadActor as error:
            broken.append(BrokenModule(place, str(error)))
    return found, broken


def known_actors(stored: Iterable[KnownActor], found: Mapping[str, DiscoveredActor]) -> dict[str, KnownClass]:
    """All of them, by name. The code that is here says more than what was written down."""
    written = {each.name: each for each in stored}
    known = {name: KnownClass(name, each.about, each.shape, each.is_enabled) for name, each in written.items()}
    for name, here in found.items():
        is_enabled = written[name].is_enabled if name in written else True
        known[name] = KnownClass(name, here.definition.about, shape_of(here.definition), is_enabled, here.definition)
    return dict(sorted(known.items()))


def new_classes(stored: Iterable[KnownActor], found: Mapping[str, DiscoveredActor]) -> list[type[Actor]]:
    """Those that no process has made known yet."""
    names = {each.name for each in stored}
    return [each.cls for name, each in found.items() if name not in names]


def known_actor(known: Mapping[str, KnownClass], name: str) -> KnownClass:
    """One of them; raises `UnknownActor`."""
    if name in known:
        return known[name]
    names = f"known: {', '.join(known)}" if known else "none is"
    raise UnknownActor(f"no actor {name!r} is known here; {names}; actors.modules in towpath.toml names their modules")


def start_again(browser: ActorBrowser, known: KnownClass | None, instance: Instance) -> ActorStart:
    """With the state in which the last run failed, and with its fields; raises `NotFailed`."""
    failed = browser.failed_state(instance)
    if known is not None:
        return known.start(instance.instance, failed.function, failed.payload)
    return ActorStart(instance.actor, instance.instance, failed.function, failed.payload)


def actors_in(place: str, directory: Path) -> list[DiscoveredActor]:
    """The actors that one module or file defines, in the order of its code."""
    module = import_user_module(place, directory, BadActor).module
    classes = list(dict.fromkeys(each for each in vars(module).values() if _is_of(each, module)))
    if not classes:
        raise BadActor(f"{place} has no actor; write a class that derives from towpath.actors.Actor")
    return [DiscoveredActor(place, cls, _defined(place, cls)) for cls in classes]


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
