"""Instances that calls have made are deleted some day; others, and those that live, never are. On both databases."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from tests.support.actors import Count, Counter, Do, Doer, Gather, Nap, Parent, Sleeper
from tests.support.quiet import Quiet, shift
from tests.support.tables import by_hand, events, rows
from tests.support.upkeep import DAY_S, Scene

from towpath.actors import End, Turn
from towpath.actors.instance import Instance, Phase, inbox_of
from towpath.actors.turn import ActorStart
from towpath.testing.clock import wait_until

Make = Callable[..., Quiet]


def test_what_calls_have_made(scene: Scene) -> None:
    assert scene.run(Parent, Gather([1, 2, 3])) == 6
    scene.run(Counter, Count(1))  # counter:main, which nobody called
    children = [each.inbox for each in scene.children()]
    assert len(children) == 3
    shift(13 * DAY_S, scene.quiet)
    assert scene.clean() == 0
    assert {each.inbox for each in scene.children()} == set(children)
    shift(2 * DAY_S, scene.quiet)
    assert scene.clean() == 3
    assert [each.name for each in scene.actors.instances()] == ["counter:main", "parent:main"]
    assert [name for name in scene.inboxes() if name in children] == []
    assert "actor:parent:main//reply" in scene.inboxes()
    [event] = events(scene.database, "instances_cleaned")
    assert json.loads(event["data"]) == {"ended": 3}
    assert scene.clean() == 0
    assert scene.run(Parent, Gather([4])) == 4


def test_its_reply_inbox_goes_with_it(scene: Scene) -> None:
    def call_a_parent(turn: Turn) -> End:
        turn.call(Parent, Gather([1]), instance="p1")
        return End()

    Doer.actions["call"] = call_a_parent
    scene.run(Doer, Do("call"))
    scene.turn(lambda: scene.actors.instance("parent", "p1").phase is Phase.ENDED)
    assert "actor:parent:p1//reply" in scene.inboxes()
    shift(15 * DAY_S, scene.quiet)
    assert scene.clean() == 2
    assert [name for name in scene.inboxes() if "p1" in name] == []
    assert rows(scene.database, "actor_wait") == []


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({}, {"failed"}),
        ({"failed_retention_s": 30 * DAY_S}, set()),
        ({"failed_retention_s": 50 * DAY_S}, {"failed"}),
        ({"retention_s": "never", "failed_retention_s": 60.0}, {"ended"}),
        ({"retention_s": 60.0, "failed_retention_s": "never"}, {"failed"}),
    ],
)
def test_ages_are_settings(make_quiet: Make, settings: dict[str, Any], left: set[str]) -> None:
    scene = Scene(make_quiet(actors=settings))

    def call_two(turn: Turn) -> End:
        turn.call(Counter, Count(1))
        turn.call(Doer, Do("what nobody knows"))
        return End()

    Doer.actions["call"] = call_two
    scene.run(Doer, Do("call"))
    scene.turn(lambda: {each.phase for each in scene.children()} == {Phase.ENDED, Phase.FAILED})
    shift(40 * DAY_S, scene.quiet)
    assert scene.clean() == 2 - len(left)
    assert {each.phase.value for each in scene.children()} == left


def test_one_that_lives_stays(scene: Scene) -> None:
    def call_a_sleeper(turn: Turn) -> End:
        turn.call(Sleeper, Nap(365 * DAY_S))
        return End()

    Doer.actions["call"] = call_a_sleeper
    scene.run(Doer, Do("call"))
    scene.turn(lambda: [each.phase for each in scene.children()] == [Phase.SLEEPING])
    before = [row for row in rows(scene.database, "message") if row["state"] in ("NEW", "ACK")]
    shift(100 * DAY_S, scene.quiet)
    scene.clean()
    scene.quiet.queue.janitor().clean()
    assert [each.phase for each in scene.children()] == [Phase.SLEEPING]
    assert [row for row in rows(scene.database, "message") if row["state"] in ("NEW", "ACK")] == before
    shift(300 * DAY_S, scene.quiet)
    scene.turn(lambda: [each.phase for each in scene.children()] == [Phase.ENDED])


def test_many_in_several_commits(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.actors.engine.recovery.MOST_PER_COMMIT", 2)
    assert scene.run(Parent, Gather([1] * 5)) == 5
    shift(15 * DAY_S, scene.quiet)
    assert scene.clean() == 5
    assert len(events(scene.database, "instances_cleaned")) == 3


def test_one_whose_process_still_works_stays(scene: Scene) -> None:
    assert scene.run(Parent, Gather([1, 2])) == 3
    working, done = (each.inbox for each in scene.children())
    for inbox, launch in ((working, str(uuid4())), (done, None)):
        by_hand(
            scene.database,
            "insert into spawned (spawner, inbox, launch_id, launched_at) values (:inbox, 'work', :launch, 1)",
            inbox=inbox,
            launch=launch,
        )
    shift(15 * DAY_S, scene.quiet)
    assert scene.clean() == 1
    assert [each.inbox for each in scene.children()] == [working]
    assert [row["spawner"] for row in rows(scene.database, "spawned")] == [working]


# A start that comes while its instance is deleted


def start_of(child: Instance) -> ActorStart:
    return ActorStart(child.actor, child.instance, "Count", {"upto": 1})


def test_a_start_that_is_being_sent_saves_it(scene: Scene) -> None:
    assert scene.run(Parent, Gather([1])) == 1
    [child] = scene.children()
    shift(15 * DAY_S, scene.quiet)
    cleaning = threading.Thread(target=scene.clean)
    with scene.database.transaction() as tx:
        scene.actors._send(start_of(child), scene.actors.outbox(), wants_answer=False, tx=tx)
        cleaning.start()
        if scene.database.dialect == "postgres":  # there it goes round what is locked; SQLite has one writer
            cleaning.join(30)
            assert not cleaning.is_alive()
    cleaning.join(30)
    assert not cleaning.is_alive()
    scene.turn(lambda: scene.actors.instance(child.actor, child.instance).last_id != child.last_id)
    scene.turn(lambda: scene.actors.instance(child.actor, child.instance).phase is Phase.ENDED)


def test_a_start_that_comes_during_the_deletion_makes_it_anew(scene: Scene) -> None:
    assert scene.run(Parent, Gather([1])) == 1
    [child] = scene.children()
    shift(15 * DAY_S, scene.quiet)
    failed: list[BaseException] = []

    def send() -> None:
        try:
            scene.actors.start(child.actor, Count(1), instance=child.instance)
        except BaseException as error:
            failed.append(error)

    sending = threading.Thread(target=send)
    with scene.database.transaction() as tx:
        assert scene.host.janitor._delete(tx, Phase.ENDED, scene.database.now()) == 1
        sending.start()
        if scene.database.dialect == "postgres":
            wait_until(lambda: is_somebody_waiting(scene), timeout_s=30)
    sending.join(30)
    assert failed == []
    scene.turn(lambda: scene.actors.instance(child.actor, child.instance).phase is Phase.ENDED)
    assert inbox_of(child.actor, child.instance) in scene.inboxes()


def is_somebody_waiting(scene: Scene) -> bool:
    database: Any = scene.database
    found = database.connection().execute("select count(*) from pg_locks where not granted").fetchone()
    return bool(found[0])
