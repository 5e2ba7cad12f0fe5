"""What is known of actors here: by the code of the configured modules, and by what processes have written down."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from towpath.actors.actor import Actor
from towpath.actors.browser import Browser
from towpath.actors.definition import Definition
from towpath.actors.discovery import Found, actors_in
from towpath.actors.instance import Instance
from towpath.actors.instance_store import KnownActor
from towpath.actors.shape import shape_of
from towpath.actors.starting import Start
from towpath.errors import BadActor, BadState, UnknownActor


@dataclass(frozen=True, slots=True)
class Known:
    """One class. Without a definition its code is not here, and it is known by what another process has said."""

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

    def start(self, instance: str, state: str | None, fields: Any) -> Start:
        """With a state that is named, or the first one; raises `BadState`."""
        function = self.state(state)["name"]
        return Start(self.name, instance, function, self.checked(function, fields))


def start_again(browser: Browser, known: Known | None, instance: Instance) -> Start:
    """With the state in which the last run failed, and with its fields; raises `NotFailed`."""
    failed = browser.failed_state(instance)
    if known is not None:
        return known.start(instance.instance, failed.function, failed.payload)
    return Start(instance.actor, instance.instance, failed.function, failed.payload)


class Broken(NamedTuple):
    """A module whose actors are not known, and why."""

    module: str
    error: str


def found_in(places: Iterable[str], directory: Path) -> tuple[dict[str, Found], list[Broken]]:
    """The actors of modules, seen from a directory. What is wrong with one does not hide the others."""
    found: dict[str, Found] = {}
    broken = []
    for place in dict.fromkeys(places):
        try:
            for each in actors_in(place, directory):
                found.setdefault(each.definition.name, each)
        except BadActor as error:
            broken.append(Broken(place, str(error)))
    return found, broken


def known_actors(stored: Iterable[KnownActor], found: Mapping[str, Found]) -> dict[str, Known]:
    """All of them, by name. The code that is here says more than what was written down."""
    written = {each.name: each for each in stored}
    known = {name: Known(name, each.about, each.shape, each.is_enabled) for name, each in written.items()}
    for name, here in found.items():
        is_enabled = written[name].is_enabled if name in written else True
        known[name] = Known(name, here.definition.about, shape_of(here.definition), is_enabled, here.definition)
    return dict(sorted(known.items()))


def new_classes(stored: Iterable[KnownActor], found: Mapping[str, Found]) -> list[type[Actor]]:
    """Those that no process has made known yet."""
    names = {each.name for each in stored}
    return [each.cls for name, each in found.items() if name not in names]


def known_actor(known: Mapping[str, Known], name: str) -> Known:
    """One of them; raises `UnknownActor`."""
    if name in known:
        return known[name]
    names = f"known: {', '.join(known)}" if known else "none is"
    raise UnknownActor(f"no actor {name!r} is known here; {names}; actors.modules in towpath.toml names their modules")
