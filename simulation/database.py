"""The database as supervision uses it: the term with its lease, and the rows of duties, by a time of its own."""

from __future__ import annotations

from dataclasses import dataclass

from simulation.checks import BEATING_S, Checks
from simulation.world import World
from towpath.supervision.coordinator.watch import DeclareDead, Exit
from towpath.supervision.duties.model import DutyState


class NotCoordinator(Exception):
    """The term is over, or another's."""


@dataclass(slots=True)
class DutyRow:
    """A duty and the process of its present launch."""

    name: str
    state: DutyState = DutyState.WAITING
    launch: int = 0
    is_launched: bool = False
    process: str | None = None  # who has registered with it
    launched_at: float = 0.0
    moved_at: float = 0.0
    ready_at: float | None = None
    beat_at: float | None = None
    exit: Exit | None = None
    early_deaths: int = 0
    next_try_at: float = 0.0


class Database:
    """One row for the term, and the duties. Every statement is atomic, and guarded as the product's are."""

    def __init__(self, world: World, checks: Checks) -> None:
        self._world = world
        self._checks = checks
        self.is_away = False
        self.cut_off: set[str] = set()  # who does not reach it
        self.slowest_s = 0.02
        self.lost_answers = 0.0  # part of the statements that are carried out without the asker being told
        self.term = 0
        self.holder = ""
        self.lease_until = 0.0
        self.duties: dict[str, DutyRow] = {}

    def heal(self) -> None:
        self.is_away = False
        self.cut_off.clear()
        self.slowest_s = 0.02
        self.lost_answers = 0.0

    def reaches(self, name: str) -> bool:
        return not self.is_away and name not in self.cut_off

    # The term.

    def take(self, holder: str, lease_s: float) -> int | None:
        if self.lease_until >= self._world.now:
            return None
        self.term += 1
        self.holder = holder
        self.lease_until = self._world.now + lease_s
        self._world.say(holder, "takes term", self.term)
        return self.term

    def renew(self, term: int, holder: str, lease_s: float) -> bool:
        if not self.is_held(term, holder):
            return False
        self.lease_until = self._world.now + lease_s
        return True

    def release(self, term: int, holder: str) -> None:
        if self.is_held(term, holder):
            self.lease_until = self._world.now - 1e-6

    def is_held(self, term: int, holder: str) -> bool:
        return self.term == term and self.holder == holder and self.lease_until >= self._world.now

    # Acts of the coordinator. `guarded` is false for the twin that does not look at the term.

    def act(self, term: int, holder: str, guarded: bool) -> None:
        """What every act of a coordinator begins with."""
        if guarded and not self.is_held(term, holder):
            raise NotCoordinator
        self._checks.acted(term, holder)

    def launch(self, name: str, launch: int) -> int | None:
        row = self.duties[name]
        if row.launch != launch or row.state not in (DutyState.WAITING, DutyState.DOWN):
            return None
        self.duties[name] = DutyRow(
            name, DutyState.STARTING, launch + 1, launched_at=self._world.now, early_deaths=row.early_deaths
        )
        self._move(self.duties[name], DutyState.STARTING)
        return launch + 1

    def launched(self, name: str, launch: int) -> None:
        if self.duties[name].launch == launch:
            self.duties[name].is_launched = True

    def declare_dead(self, dead: DeclareDead, guarded: bool = True) -> bool:
        """Whether it is dead now; not when it has beaten since the coordinator read its row."""
        row = self.duties[dead.name]
        if row.launch != dead.launch or row.state not in (DutyState.STARTING, DutyState.READY):
            return False
        if guarded and not dead.is_certain and self._has_beaten(row):
            return False
        self._checks.declared_dead(dead, row.beat_at)
        row.early_deaths += dead.is_early
        row.next_try_at = self._world.now + dead.rest_s
        self._move(row, DutyState.DOWN)
        return True

    def _has_beaten(self, row: DutyRow) -> bool:
        return row.beat_at is not None and self._world.now - row.beat_at <= BEATING_S

    def give_up(self, name: str, launch: int) -> None:
        row = self.duties[name]
        if row.launch == launch and row.state is DutyState.DOWN:
            self._move(row, DutyState.FAILED)

    # What processes and launchers write.

    def register(self, name: str, launch: int, process: str) -> bool:
        """Whether this process may work: its launch is the present one, and nobody else has registered with it."""
        row = self.duties[name]
        if row.launch != launch or row.process not in (None, process):
            return False
        row.process = process
        row.beat_at = self._world.now
        return True

    def beat(self, name: str, launch: int) -> bool:
        row = self.duties[name]
        if row.launch != launch:
            return False
        row.beat_at = self._world.now
        return True

    def ready(self, name: str, launch: int) -> None:
        row = self.duties[name]
        if row.launch == launch and row.state is DutyState.STARTING:
            row.ready_at = self._world.now
            row.early_deaths = 0
            self._move(row, DutyState.READY)

    def note_exit(self, name: str, launch: int, exit_: Exit) -> None:
        row = self.duties[name]
        if row.launch == launch and row.exit is None:
            row.exit = exit_

    def _move(self, row: DutyRow, state: DutyState) -> None:
        row.state = state
        row.moved_at = self._world.now
        self._world.say(row.name, "launch", row.launch, "is", state.value)
