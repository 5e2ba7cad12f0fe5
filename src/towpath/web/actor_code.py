"""The actors whose code this process has: those of the modules that the settings name.

They are imported when somebody first asks for actors, and once: a module that cannot be imported is told of where
classes are listed, and neither keeps the server from starting nor hides other modules. What another process has
written down of a class is known without its code.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from fastapi import Request

from towpath.actors.actors import Actors
from towpath.actors.discovery import Found
from towpath.actors.known import Broken, Known, found_in, known_actor, known_actors, new_classes
from towpath.web.asking import runtime_of


class ActorCode:
    """Made once for an app."""

    def __init__(self, modules: Sequence[str], directory: Path) -> None:
        self._modules = modules
        self._directory = directory
        self._lock = threading.Lock()
        self._found: tuple[dict[str, Found], list[Broken]] | None = None

    def known(self, actors: Actors) -> dict[str, Known]:
        """All actors that are known, by name."""
        return known_actors(actors.known(), self._read()[0])

    def made_known(self, actors: Actors, name: str) -> Known:
        """One of them, which other processes know of from now on, too; raises `UnknownActor`."""
        found = self._read()[0]
        actors.register(*new_classes(actors.known(), found))
        return known_actor(known_actors(actors.known(), found), name)

    @property
    def broken(self) -> list[Broken]:
        """Modules that cannot be imported, or have no actors."""
        return self._read()[1]

    def _read(self) -> tuple[dict[str, Found], list[Broken]]:
        with self._lock:
            if self._found is None:
                self._found = found_in(self._modules, self._directory)
            return self._found


def code_of(request: Request) -> ActorCode:
    code: ActorCode = request.app.state.actor_code
    return code


def known_of(request: Request) -> dict[str, Known]:
    """All actors that are known."""
    return code_of(request).known(runtime_of(request).actors)
