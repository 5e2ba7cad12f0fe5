"""An intake, and the janitor of the desk, die by SIGKILL at each of their points; another goes on; all is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.recovery.stage import ROOT
from tests.support.desk import NO_CITY, DeskFlow, blob_names, check_tallies, desk_tables, intake_of, take_all

from towpath import settings
from towpath.core.crash import CrashPoint as P
from towpath.desk.cases.model import CaseSelection, CaseState
from towpath.desk.cases.store import CaseStore
from towpath.desk.policies.store import PolicyStore
from towpath.flow.records.reentry import reentry_record
from towpath.log.record import NewRecord, Record
from towpath.policy import Match, Rule, constant, ignore, repeat, repeat_after
from towpath.runtime import Runtime
from towpath.testing.processes import ChildProcess

TAKING = [
    *((P.DESK_BODIES_KEPT, passes) for passes in (1, 2)),
    *((P.DESK_ERRORS_BEFORE_COMMIT, passes) for passes in (1, 2, 4)),
    *((P.DESK_ERRORS_AFTER_COMMIT, passes) for passes in (1, 2, 4)),
    *((P.DESK_OUTCOMES_BEFORE_COMMIT, passes) for passes in (1, 2)),
    *((P.DESK_OUTCOMES_AFTER_COMMIT, passes) for passes in (1, 2)),
]
CLEANING = [(point, 1) for point in (P.DESK_FORGET_BEFORE_COMMIT, P.DESK_FORGET_AFTER_COMMIT)]
INTAKE_POINTS = {point for point, _ in (*TAKING, *CLEANING)}


class Scene:
    """A flow whose errors and outcomes wait for the desk, and processes that are the desk."""

    def __init__(self, database: dict[str, Any], home: Path) -> None:
        home.mkdir()
        self.home = home
        self.sections = {
            "database": database,
            "log": {"url": f"sqlite:///{home}/log.db"},
            "flow": {"directory": f"{home}/flows"},
            "desk": {"directory": f"{home}/desk"},
        }
        self.runtime = Runtime(settings.load(self.sections))
        self.flow = DeskFlow(self.runtime)

    def prepare(self) -> None:
        """Three cases are out, of which two are loaded and one has failed again; and more errors of all kinds."""
        with self.runtime.database.transaction() as tx:
            rules = [
                Rule(repeat(2), Match(step="twice")),
                Rule(repeat_after(constant("1h", times=3)), Match(step="later")),
                Rule(ignore(approved_by="Ann Lee", until="2999-01-01"), Match(step="noise")),
            ]
            PolicyStore(self.runtime.database).declare(tx, "shop", None, rules)
        self.flow.fail(0, 1, 2)
        take_all(intake_of(self.runtime))
        cases = CaseStore(self.runtime.database)
        with self.runtime.database.transaction() as tx:
            found = sorted(cases.page(tx, CaseSelection(), 10), key=lambda case: case.offset)
            ids = [case.id for case in found]
            cases.move(tx, ids, CaseState.REPLAYING, who="ann", why="again", ticket=True)
            bodies = cases.bodies(tx, ids)
        sent = [
            reentry_record(Record("", 0, 0, 0, case.key, bodies[case.id].value, bodies[case.id].headers), case.id, 2)
            for case in found
        ]
        timed = [each._replace(timestamp_ms=1_750_000_000_000) for each in sent]
        places = self.runtime.log.append(self.flow.topics.reentry, timed)
        back = [self.runtime.log.record(self.flow.topics.reentry, *place) for place in places]
        for record in back[:2]:
            assert record is not None
            self.flow.outcome(record)
            self.flow.outcome(record)
        assert back[2] is not None
        self.flow.fail_again(back[2], NO_CITY._replace(step="twice"))
        self.flow.fail_again(back[2], NO_CITY._replace(step="twice"))
        self.runtime.log.append(self.flow.topics.errors, [NewRecord(b"?", b"k", timestamp_ms=1_800_000_000_000)])
        self.flow.fail(10, value=b"x" * 300_000, hash="b2")
        self.flow.fail(11, value=b"y" * (5 << 20), hash="b2")
        self.flow.fail(12, 13, 14, failure=NO_CITY._replace(step="later"), hash="b2")
        self.flow.fail(15, 16, failure=NO_CITY._replace(step="noise"), hash="b2")
        self.flow.fail(12, 15, failure=NO_CITY._replace(step="later"), hash="b2")  # told again
        self.flow.gap(20, 30, "b2")

    def settle(self) -> None:
        """Some cases are done with, long ago."""
        take_all(intake_of(self.runtime))
        cases = CaseStore(self.runtime.database)
        with self.runtime.database.transaction() as tx:
            ids = [case.id for case in cases.page(tx, CaseSelection(states=(CaseState.OPEN,)), 100)]
            cases.move(tx, ids, CaseState.ABANDONED, who="ann", why="test data")
        self.runtime.database.shift_clock(40 * 86400)

    def run(self, act: str, crash_at: str | None = None) -> ChildProcess:
        told = {"act": act, "sections": self.sections}
        log = self.home / "children.log"
        return ChildProcess("tests.recovery.desk_intake.acts", told, log=log, crash_at=crash_at, cwd=ROOT)

    def dies_at(self, act: str, point: P, passes: int) -> None:
        with self.run(act, f"{point}:{passes}") as child:
            child.wait_killed()

    def goes_on(self, act: str) -> None:
        with self.run(act) as child:
            child.wait_done()

    @property
    def all(self) -> dict[str, Any]:
        check_tallies(self.runtime.database)
        tables = desk_tables(self.runtime.database)
        log, topics = self.runtime.log, self.flow.topics
        names = {log.topic(name).id: name for name in (topics.errors, topics.outcomes)}
        names |= {case["id"]: "the stray" for case in tables["desk_case"] if case["kind"] == "stray"}
        plain = {
            name: sorted(({key: _named(value, names) for key, value in row.items()} for row in rows), key=repr)
            for name, rows in tables.items()
        }
        return {**plain, "files": blob_names(self.runtime)}


def _named(value: Any, names: dict[str, str]) -> Any:
    """Ids that another scene has otherwise, by what they are."""
    return names.get(value, value) if isinstance(value, str) else value


@pytest.fixture
def make_scene(database_settings: dict[str, Any], tmp_path: Path) -> Iterator[Callable[[], Scene]]:
    made: list[Scene] = []

    def make() -> Scene:
        name = f"s{len(made)}"
        is_sqlite = database_settings["url"].startswith("sqlite")
        own = {"url": f"sqlite:///{tmp_path}/{name}/towpath.db"} if is_sqlite else {"schema": f"t{uuid4().hex[:16]}"}
        made.append(Scene({**database_settings, **own}, tmp_path / name))
        return made[-1]

    yield make
    for scene in made:
        scene.runtime.close()


def expected(make_scene: Callable[[], Scene], act: str) -> dict[str, Any]:
    """What nobody has disturbed."""
    scene = make_scene()
    scene.prepare()
    if act == "clean":
        scene.settle()
    scene.goes_on(act)
    return scene.all


@pytest.mark.parametrize(("point", "passes"), TAKING, ids=str)
def test_an_intake_survives_kill_at(point: P, passes: int, make_scene: Callable[[], Scene]) -> None:
    """Without the position in the transaction, errors would be lost or taken in twice."""
    scene = make_scene()
    scene.prepare()
    scene.dies_at("take", point, passes)
    scene.goes_on("take")
    assert scene.all == expected(make_scene, "take")


@pytest.mark.parametrize(("point", "passes"), CLEANING, ids=str)
def test_the_janitor_survives_kill_at(point: P, passes: int, make_scene: Callable[[], Scene]) -> None:
    """Without one transaction, what was deleted would be missing in the sums, or be added twice."""
    scene = make_scene()
    scene.prepare()
    scene.settle()
    scene.dies_at("clean", point, passes)
    scene.goes_on("clean")
    assert scene.all == expected(make_scene, "clean")


def test_what_an_undisturbed_intake_makes(make_scene: Callable[[], Scene]) -> None:
    """The tables with which all others are compared, so that they are not equal by being wrong in the same way."""
    found = expected(make_scene, "take")
    assert sorted(
        (case["kind"], case["start_offset"], case["state"], case["attempts"]) for case in found["desk_case"]
    ) == [
        ("error", 0, "resolved", 1),
        ("error", 1, "resolved", 1),
        ("error", 2, "replaying", 2),
        ("error", 10, "open", 1),
        ("error", 11, "open", 1),
        ("error", 12, "waiting", 1),
        ("error", 13, "waiting", 1),
        ("error", 14, "waiting", 1),
        ("error", 15, "ignored", 1),
        ("error", 16, "ignored", 1),
        ("gap", 20, "open", 1),
        ("stray", 5, "open", 1),
    ]
    assert sorted((each["target"], each["attempt"], each["ticket"]) for each in found["desk_outbox"]) == [
        *[("lane", 2, 1)] * 3,
        ("reentry", 3, 2),
    ]
    assert len(found["desk_body"]) == 9
    assert len(found["files"]) == 2


def test_every_point_of_the_intake_is_here() -> None:
    named = {point for point in P if point.startswith(("desk_bodies", "desk_errors", "desk_outcomes", "desk_forget"))}
    assert {point for point, _ in (*TAKING, *CLEANING)} == named
