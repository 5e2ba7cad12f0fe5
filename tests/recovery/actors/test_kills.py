"""A host dies by SIGKILL at every crash point of actors, for each resume policy; another goes on; all is compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.recovery.actors.model import IN_TURN, Walk
from tests.recovery.actors.walkers import WALKERS, WORK
from tests.recovery.stage import ROOT

import towpath
from towpath.actors import Resume
from towpath.actors.instance import Phase
from towpath.core.crash import CrashPoint as P
from towpath.runtime import Runtime
from towpath.testing.processes import ChildProcess
from towpath.testing.queue_ledger import entries

QUEUE = {"poll_s": 0.2, "caretaker_s": 0.05}
ONCE = (P.INTAKE_BEFORE_COMMIT, P.INTAKE_AFTER_COMMIT, P.ACTORS_CLAIM_BEFORE_COMMIT, P.ACTORS_CLAIM_AFTER_COMMIT)
REVIVING = (P.REVIVE_BEFORE_COMMIT, P.REVIVE_AFTER_COMMIT)
ACTOR_POINTS = frozenset((*ONCE, *IN_TURN, *REVIVING))

CASES = [
    *((policy, point, 1) for policy in Resume for point in ONCE),
    *((policy, point, 2) for policy in Resume for point in IN_TURN),
    *((Resume.RETRY, point, passes) for point in IN_TURN for passes in (1, 3)),
]


class Scene:
    """A walker that is started, processes that host it, and what they leave behind."""

    def __init__(self, runtime: Runtime, database: dict[str, Any], home: Path, policy: Resume) -> None:
        self.runtime = runtime
        self.actor = WALKERS[policy].name
        self._home = home
        self._told = {
            "journal": str(home / "journal"),
            "sections": {"database": database, "queue": QUEUE, "process": {"lease_s": 600, "heartbeat_s": 1}},
        }
        runtime.queue.inbox(WORK)
        runtime.actors.register(*WALKERS.values())
        self.run_id = runtime.actors.start(WALKERS[policy], wants_answer=True)

    def host(self, crash_at: str | None = None) -> ChildProcess:
        log = self._home / "children.log"
        return ChildProcess("tests.recovery.actors.hosting", self._told, log=log, crash_at=crash_at, cwd=ROOT)

    def dies_at(self, point: P, passes: int = 1) -> None:
        with self.host(f"{point}:{passes}") as child:
            child.wait_killed()

    def goes_on(self) -> None:
        with self.host() as child:
            child.wait_done(90)

    @property
    def history(self) -> list[list[str]]:
        return [[each.function, each.state] for each in reversed(self.runtime.actors.history(self.actor))]

    @property
    def ran(self) -> list[str]:
        return [entry["did"] for entry in entries(self._home / "journal")]

    @property
    def sent(self) -> int:
        return len(self.runtime.queue.inbox(WORK).eavesdrop(100))


@pytest.fixture
def make_scene(database_settings: dict[str, Any], tmp_path: Path) -> Iterator[Any]:
    made: list[Runtime] = []

    def make(policy: Resume) -> Scene:
        made.append(towpath.connect(database=database_settings))
        return Scene(made[-1], database_settings, tmp_path, policy)

    yield make
    for runtime in made:
        runtime.close()


def check(scene: Scene, expected: Walk) -> None:
    """The whole history, whose code ran how often, what was sent, how it came to rest, and what the asker is told."""
    assert scene.history == expected.history
    assert scene.ran == expected.ran
    assert scene.sent == expected.sent
    instance = scene.runtime.actors.instance(scene.actor)
    assert instance.phase is (Phase.FAILED if expected.has_failed else Phase.ENDED)
    answer = scene.runtime.actors.outbox().wait(scene.run_id, timeout_s=30)
    if expected.has_failed:
        assert f"died in {expected.history[-2][0]}" in answer.payload["error"]
    else:
        assert answer.payload == "walked"
    ids = [None, *(each.id for each in reversed(scene.runtime.actors.history(scene.actor)))]
    related = [each.related_id for each in reversed(scene.runtime.actors.history(scene.actor))]
    assert related == ids[:-1]


@pytest.mark.parametrize(("policy", "point", "passes"), CASES, ids=str)
def test_an_actor_survives_kill_at(policy: Resume, point: P, passes: int, make_scene: Any) -> None:
    scene = make_scene(policy)
    scene.dies_at(point, passes)
    scene.goes_on()
    check(scene, Walk(policy, point, passes).run())


@pytest.mark.parametrize("point", REVIVING)
@pytest.mark.parametrize("policy", list(Resume))
def test_who_takes_over_may_die_as_well(policy: Resume, point: P, make_scene: Any) -> None:
    scene = make_scene(policy)
    scene.dies_at(P.TURN_DONE, 2)
    scene.dies_at(point)
    scene.goes_on()
    check(scene, Walk(policy, P.TURN_DONE, 2).run())


def test_every_point_of_actors_is_here() -> None:
    named = [point for point in P if point.startswith(("intake_", "actors_", "turn_", "revive_"))]
    assert set(named) == ACTOR_POINTS
    assert {point for _, point, _ in CASES} | set(REVIVING) == ACTOR_POINTS
