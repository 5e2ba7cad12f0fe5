"""What must never happen, and what must happen in time."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulation.world import World
from towpath.supervision.coordinator.watch import DeclareDead

BEATING_S = 2.0  # whoever's beats come within this time is not restarted
ELECTION_TIMEOUTS = 10  # after healing, until there is one group with one coordinator
TAKEOVER_S = 3.0  # from the death of a coordinator until another acts
BACK_S = 25.0  # from healing until every process is ready, back-off included


class Violated(Exception):
    """A rule was broken, at this moment of this run."""


@dataclass(slots=True)
class Checks:
    """Sees every act at the moment when the database carries it out."""

    world: World
    actors: dict[int, str] = field(default_factory=dict)  # who has acted under which term
    newest_term: int = 0
    deaths: int = 0
    acts: int = 0

    def acted(self, term: int, who: str) -> None:
        """At most one coordinator acts per term, and none after a newer one has begun to."""
        self.acts += 1
        first = self.actors.setdefault(term, who)
        if first != who:
            self.fail(f"{first} and {who} have both acted under term {term}")
        if term < self.newest_term:
            self.fail(f"{who} acts under term {term}, after {self.actors[self.newest_term]} did under a newer one")
        self.newest_term = term

    def declared_dead(self, dead: DeclareDead, beat_at: float | None) -> None:
        """No process is restarted whose beats arrive; its certain end is another matter."""
        self.deaths += 1
        if not dead.is_certain and beat_at is not None and (ago_s := self.world.now - beat_at) <= BEATING_S:
            self.fail(f"{dead.name} is declared dead ({dead.how.value}), and has beaten {ago_s:.3f} s ago")

    def fail(self, what: str) -> None:
        raise Violated(f"at {self.world.now:.3f} s: {what}")
