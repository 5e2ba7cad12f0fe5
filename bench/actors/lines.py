"""The rows of the table: what is measured beside what, and what it has to reach."""

from __future__ import annotations

from enum import StrEnum

from bench import line
from bench.actors import goals
from bench.goal import Goal
from bench.line import Line

AT_ONCE = 16  # runs: as many states as a host with default settings runs at once
SLEEPERS = 10_000


class Part(StrEnum):
    """What can be measured alone."""

    STEPS = "steps"
    TAKEOVER = "takeover"
    SLEEPERS = "sleepers"


class Store(StrEnum):
    """Where the actors live."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"


class Measure(line.Measure):
    """One thing that is done and timed."""

    TOWPATH_FULL = "Towpath on SQLite FULL"
    TOWPATH_FULL_ONE = "Towpath on SQLite FULL, one at a time"
    TOWPATH_FULL_STARTS = "Towpath on SQLite FULL, with the starts"
    TOWPATH_NORMAL = "Towpath on SQLite NORMAL"
    TOWPATH_NORMAL_ONE = "Towpath on SQLite NORMAL, one at a time"
    TOWPATH_POSTGRES = "Towpath on PostgreSQL"
    TOWPATH_POSTGRES_ONE = "Towpath on PostgreSQL, one at a time"
    TOWPATH_POSTGRES_STARTS = "Towpath on PostgreSQL, with the starts"
    DBOS_FULL = "DBOS on SQLite FULL"
    DBOS_FULL_ONE = "DBOS on SQLite FULL, one at a time"
    DBOS_WAL = "DBOS on SQLite FULL with WAL"
    DBOS_WAL_ONE = "DBOS on SQLite FULL with WAL, one at a time"
    DBOS_NORMAL = "DBOS on SQLite NORMAL with WAL"
    DBOS_NORMAL_ONE = "DBOS on SQLite NORMAL with WAL, one at a time"
    DBOS_POSTGRES = "DBOS on PostgreSQL"
    DBOS_POSTGRES_ONE = "DBOS on PostgreSQL, one at a time"
    GOES_ON_SQLITE = "goes on after SIGKILL, SQLite"
    GOES_ON_POSTGRES = "goes on after SIGKILL, PostgreSQL"
    IDLE_SQLITE = "idle host with sleepers, SQLite"
    IDLE_POSTGRES = "idle host with sleepers, PostgreSQL"
    MESSAGE_SQLITE = "claim of messages beside sleepers, SQLite"
    MESSAGE_POSTGRES = "claim of messages beside sleepers, PostgreSQL"
    MESSAGE_ALONE_SQLITE = "claim of messages, SQLite"
    MESSAGE_ALONE_POSTGRES = "claim of messages, PostgreSQL"
    ACTOR_SQLITE = "claim of due actors beside sleepers, SQLite"
    ACTOR_POSTGRES = "claim of due actors beside sleepers, PostgreSQL"
    ACTOR_ALONE_SQLITE = "claim of due actors, SQLite"
    ACTOR_ALONE_POSTGRES = "claim of due actors, PostgreSQL"
    ALL_TAKEN_SQLITE = "all sleepers taken over, SQLite"
    ALL_TAKEN_POSTGRES = "all sleepers taken over, PostgreSQL"

    @property
    def is_time(self) -> bool:
        return not self.name.startswith(("TOWPATH", "DBOS", "IDLE"))

    @property
    def is_share(self) -> bool:
        """Of a core."""
        return self.name.startswith("IDLE")

    @classmethod
    def of(cls, what: str, store: Store) -> Measure:
        return cls[f"{what}_{store.name}"]


TITLES = {Store.SQLITE: "SQLite", Store.POSTGRES: "PostgreSQL"}
STORES_OF_STEPS = {
    Store.SQLITE: (
        "SQLite, FULL (DBOS with its rollback journal, Towpath with WAL: the defaults)",
        "SQLite, FULL, both with WAL",
        "SQLite, NORMAL, both with WAL",
    ),
    Store.POSTGRES: ("PostgreSQL, synchronous_commit on, the same server",),
}
_MANY = f"transitions, {AT_ONCE} runs at once"
_BESIDE_BEST = f"transitions, {AT_ONCE} runs at once beside one at a time, which is DBOS's best here"
_ONE = "transitions, one run at a time"
_STARTS = f"transitions, {AT_ONCE} runs at once, Towpath's starts in its time as well"


def lines(parts: tuple[Part, ...], stores: tuple[Store, ...]) -> list[Line]:
    """All rows of these parts on these stores."""
    every = [
        *(row for store in stores for row in _steps(store)),
        *(
            _alone(Part.TAKEOVER, "from SIGKILL to going on elsewhere", "GOES_ON", each, goals.goes_on())
            for each in stores
        ),
        *(row for store in stores for row in _sleepers(store)),
    ]
    return [row for row in every if row.part in parts]


def _steps(store: Store) -> list[Line]:
    m = Measure
    if store is Store.POSTGRES:
        [where] = STORES_OF_STEPS[store]
        goal = goals.transitions(goals.ON_POSTGRES)
        return [
            _against(_MANY, where, m.TOWPATH_POSTGRES, m.DBOS_POSTGRES, goal),
            _against(_STARTS, where, m.TOWPATH_POSTGRES_STARTS, m.DBOS_POSTGRES),
            _against(_ONE, where, m.TOWPATH_POSTGRES_ONE, m.DBOS_POSTGRES_ONE),
        ]
    defaults, full, normal = STORES_OF_STEPS[store]
    goal = goals.transitions(goals.ON_SQLITE)
    return [
        _against(_MANY, defaults, m.TOWPATH_FULL, m.DBOS_FULL, goal),
        _against(_BESIDE_BEST, defaults, m.TOWPATH_FULL, m.DBOS_FULL_ONE, goal),
        _against(_STARTS, defaults, m.TOWPATH_FULL_STARTS, m.DBOS_FULL),
        _against(_ONE, defaults, m.TOWPATH_FULL_ONE, m.DBOS_FULL_ONE),
        _against(_MANY, full, m.TOWPATH_FULL, m.DBOS_WAL, goal),
        _against(_BESIDE_BEST, full, m.TOWPATH_FULL, m.DBOS_WAL_ONE, goal),
        _against(_MANY, normal, m.TOWPATH_NORMAL, m.DBOS_NORMAL, goal),
        _against(_BESIDE_BEST, normal, m.TOWPATH_NORMAL, m.DBOS_NORMAL_ONE, goal),
        _against(_ONE, normal, m.TOWPATH_NORMAL_ONE, m.DBOS_NORMAL_ONE),
    ]


def _against(operation: str, where: str, ours: Measure, peer: Measure, goal: Goal | None = None) -> Line:
    return Line(Part.STEPS, operation, where, ours, peer, "DBOS", goal)


def _sleepers(store: Store) -> list[Line]:
    beside = f"beside {SLEEPERS:,} sleepers"
    return [
        _alone(Part.SLEEPERS, f"CPU of an idle host {beside}", "IDLE", store, goals.idle()),
        _claims(f"claim of ten messages {beside}", "MESSAGE", store),
        _claims(f"claim of ten due actors {beside}", "ACTOR", store),
        _alone(
            Part.SLEEPERS,
            f"from SIGKILL until the next host has run all {SLEEPERS:,}, all of them due",
            "ALL_TAKEN",
            store,
            goals.all_taken(),
        ),
    ]


def _claims(operation: str, what: str, store: Store) -> Line:
    ours, without = Measure.of(what, store), Measure.of(f"{what}_ALONE", store)
    return Line(Part.SLEEPERS, operation, TITLES[store], ours, without, "without them", goals.claims())


def _alone(part: Part, operation: str, what: str, store: Store, goal: Goal) -> Line:
    return Line(part, operation, TITLES[store], Measure.of(what, store), goal=goal)
