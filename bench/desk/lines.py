"""The rows of the table: what is measured, where, and what it has to reach."""

from __future__ import annotations

from enum import StrEnum

from bench import line
from bench.desk import goals
from bench.goal import Goal
from bench.line import Line

MANY, FEW = 1_000_000, 1_000


class Part(StrEnum):
    """What can be measured alone."""

    INTAKE = "intake"
    QUERIES = "queries"
    REPLAY = "replay"
    LANE = "lane"
    HEALTHY = "healthy"


class Store(StrEnum):
    """Where the desk and its topics live."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"


class Measure(line.Measure):
    """One thing that is done and timed."""

    INTAKE_SQLITE = "errors taken in, SQLite"
    INTAKE_POSTGRES = "errors taken in, PostgreSQL"
    GROUPS_SQLITE = "list of groups, SQLite"
    GROUPS_POSTGRES = "list of groups, PostgreSQL"
    OPEN_SQLITE = "list of open cases, SQLite"
    OPEN_POSTGRES = "list of open cases, PostgreSQL"
    GROUP_SQLITE = "list of a group's cases, SQLite"
    GROUP_POSTGRES = "list of a group's cases, PostgreSQL"
    CAUSE_SQLITE = "list by step and code, SQLite"
    CAUSE_POSTGRES = "list by step and code, PostgreSQL"
    COUNT_SQLITE = "count of open cases, SQLite"
    COUNT_POSTGRES = "count of open cases, PostgreSQL"
    SHOW_SQLITE = "one case, SQLite"
    SHOW_POSTGRES = "one case, PostgreSQL"
    TAKE_MANY_SQLITE = "a portion taken in beside many, SQLite"
    TAKE_MANY_POSTGRES = "a portion taken in beside many, PostgreSQL"
    TAKE_FEW_SQLITE = "a portion taken in beside few, SQLite"
    TAKE_FEW_POSTGRES = "a portion taken in beside few, PostgreSQL"
    REPLAY_SQLITE = "replay of a group, SQLite"
    REPLAY_POSTGRES = "replay of a group, PostgreSQL"
    LANE_SQLITE = "release from a lane, SQLite"
    LANE_POSTGRES = "release from a lane, PostgreSQL"
    INTAKE_HAND = "errors put into a table, written by hand"
    REPLAY_HAND = "replay out of a table, written by hand"
    HEALTHY_BAD = "a flow with 1 % errors, the desk at work"
    HEALTHY_CLEAN = "the same flow without errors or desk"

    @property
    def is_time(self) -> bool:
        return not self.name.startswith(("INTAKE", "REPLAY", "HEALTHY"))

    @classmethod
    def of(cls, what: str, store: Store) -> Measure:
        return cls[f"{what}_{store.name}"]


TITLES = {
    Store.SQLITE: "SQLite, FULL, topics in the same file",
    Store.POSTGRES: "PostgreSQL, synchronous_commit on, topics in Kafka",
}
_BESIDE = f"beside {MANY:,} open cases"
QUERIES = {
    "GROUPS": f"page of 50 groups {_BESIDE}",
    "OPEN": f"page of 50 open cases of a flow {_BESIDE}",
    "GROUP": f"page of 50 cases of a group {_BESIDE}",
    "CAUSE": f"page of 50 cases by step and code {_BESIDE}",
    "COUNT": f"count of a flow's open cases {_BESIDE}",
    "SHOW": f"one case with body, attempts and history {_BESIDE}",
}


def lines(parts: tuple[Part, ...], stores: tuple[Store, ...]) -> list[Line]:
    """All rows of these parts on these stores. Peers are where their servers are."""
    every = [row for store in stores for row in _rows(store)]
    if Store.POSTGRES in stores:
        every += [*_beside_peers(), _healthy()]
    return [row for row in every if row.part in parts]


def _beside_peers() -> list[Line]:
    """What the desk costs beside less: there is no goal for that."""
    place = TITLES[Store.POSTGRES]
    beside = "by hand"
    return [
        Line(
            Part.INTAKE,
            "errors taken in, beside a consumer",
            place,
            Measure.INTAKE_POSTGRES,
            Measure.INTAKE_HAND,
            beside,
        ),
        Line(Part.REPLAY, "replay, beside a script", place, Measure.REPLAY_POSTGRES, Measure.REPLAY_HAND, beside),
    ]


def _healthy() -> Line:
    return Line(
        Part.HEALTHY,
        "throughput of a flow with 1 % errors, the desk at work",
        "Kafka to Elasticsearch, PostgreSQL",
        Measure.HEALTHY_BAD,
        Measure.HEALTHY_CLEAN,
        "clean, no desk",
        goals.healthy(),
    )


def _rows(store: Store) -> list[Line]:
    return [
        _alone(
            Part.INTAKE,
            "errors taken in, of one cause, with bodies of 200 bytes and traces",
            "INTAKE",
            store,
            goals.intake(store.name),
        ),
        *(_alone(Part.QUERIES, told, what, store, goals.query()) for what, told in QUERIES.items()),
        Line(
            Part.QUERIES,
            f"1,000 errors of a known cause taken in {_BESIDE}",
            TITLES[store],
            Measure.of("TAKE_MANY", store),
            Measure.of("TAKE_FEW", store),
            f"beside {FEW:,}",
            goals.grouping(),
        ),
        _alone(
            Part.REPLAY, "replay of a group, from open cases to the re-entry topic", "REPLAY", store, goals.replay()
        ),
        _alone(Part.LANE, "from due to readable in the re-entry topic", "LANE", store, goals.release()),
    ]


def _alone(part: Part, operation: str, what: str, store: Store, goal: Goal) -> Line:
    return Line(part, operation, TITLES[store], Measure.of(what, store), goal=goal)
