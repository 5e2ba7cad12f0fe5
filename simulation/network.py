"""The network between peers and processes: it loses, delays, doubles, reorders and splits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulation.world import World


class Network:
    """Carries messages from one name to another."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._receivers: dict[str, Callable[[str, Any], None]] = {}
        self.blocked: set[tuple[str, str]] = set()  # from whom to whom nothing comes through
        self.heal()

    def heal(self) -> None:
        """From now on it is a good network of a few milliseconds."""
        self.loss = 0.0
        self.doubling = 0.0
        self.shortest_s, self.longest_s = 0.001, 0.01
        self.blocked.clear()

    def attach(self, name: str, receive: Callable[[str, Any], None]) -> None:
        self._receivers[name] = receive

    def send(self, sender: str, to: str, message: Any) -> None:
        """Each copy goes its own way and takes its own time, so that later ones overtake."""
        if (sender, to) in self.blocked:
            return
        rng = self._world.rng
        copies = 2 if self.doubling and rng.random() < self.doubling else 1
        for _ in range(copies):
            if self.loss and rng.random() < self.loss:
                continue
            self._world.after(rng.uniform(self.shortest_s, self.longest_s), self._arrive, sender, to, message)

    def _arrive(self, sender: str, to: str, message: Any) -> None:
        receive = self._receivers.get(to)
        if receive is not None:
            receive(sender, message)
