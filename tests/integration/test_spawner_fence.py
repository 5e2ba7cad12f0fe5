"""A process whose launch is not the current one ends before it has done anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.spawned import Hand, Rig
from tests.support.tables import rows

from towpath.actors.actor import Sleep
from towpath.actors.instance import MAIN
from towpath.actors.spawner.launch import EXIT_REPLACED, ProcessLife, SpawnedChildren, SpawnTask
from towpath.actors.spawner.spawner import Launch, SpawnedControl
from towpath.actors.spawner.store import SpawnedStore
from towpath.actors.turn import Turn
from towpath.errors import DatabaseUnavailable
from towpath.queue.payload import new_id
from towpath.testing.clock import wait_until

SPAWNER = "actor:hand:main"
TASK = SpawnTask("hand", "main", Hand.inbox, Hand.entry, (), 0.3, 1.0)


def run(rig: Rig, launch_id: str) -> ProcessLife:
    """Start a process of a launch, as a host would, and wait for its end."""
    child = SpawnedChildren().start(rig.runtime.settings, TASK, SPAWNER, launch_id)
    rig.pids.add(child.pid)
    wait_until(lambda: child.life().is_alive is False, 60, "the end of the process")
    return child.life()


def test_launches_that_are_not_current(rig: Rig) -> None:
    rig.actors.register(Hand)
    store, database = SpawnedStore(rig.runtime.database), rig.runtime.database
    message = rig.send(Hand, ["double", 1])
    old, current = new_id(), new_id()
    assert run(rig, new_id()).exit_code == EXIT_REPLACED  # nobody has asked for any
    with database.transaction() as tx:
        store.begin(tx, SPAWNER, Hand.inbox, old)
        store.replace(tx, SPAWNER, old, current)
    assert run(rig, old).exit_code == EXIT_REPLACED  # another took its place before it was there
    with database.transaction() as tx:
        store.ask_stop(tx, SPAWNER, current, "enough")
    assert run(rig, current).exit_code == EXIT_REPLACED  # nobody wants it any more
    assert rig.journal() == []
    assert (rig.message(message).state, rig.message(message).attempts) == ("NEW", 0)
    assert {row["state"] for row in rows(database, "process") if row["name"] == "hand"} == {"stopped"}


def test_a_launch_shows_itself_once(rig: Rig) -> None:
    """A second process with the same launch id, such as one that was copied by hand, does nothing."""
    rig.actors.register(Hand)
    launch_id = new_id()
    with rig.runtime.database.transaction() as tx:
        SpawnedStore(rig.runtime.database).begin(tx, SPAWNER, Hand.inbox, launch_id)
    message = rig.send(Hand, ["double", 1])
    assert run(rig, launch_id).exit_code == 0
    assert rig.outbox.wait(message, 30).payload == 2
    assert run(rig, launch_id).exit_code == EXIT_REPLACED
    assert len(rig.journal("process")) == 1


def test_a_launch_in_use_is_not_replaced(rig: Rig) -> None:
    store, database = SpawnedStore(rig.runtime.database), rig.runtime.database
    first, second = new_id(), new_id()
    with database.transaction() as tx:
        store.begin(tx, SPAWNER, "work", first)
        store.begin(tx, SPAWNER, "work", second)  # not while the first one may work
        assert store.show_up(tx, SPAWNER, first, "p-1", 1, "here")
        store.replace(tx, SPAWNER, first, second)  # nor when it is there
        row = store.read(tx, SPAWNER)
    assert row is not None
    assert (row.launch_id, row.process_id) == (first, "p-1")


def a_turn(rig: Rig, attempts: int) -> Turn:
    """A turn of the spawner as a host would make it."""
    rig.actors.start(Hand)
    message = replace(rig.actors.history("hand")[0], attempts=attempts)
    return Turn(rig.actors._parts, rig.actors.instance("hand", MAIN), message)


def test_the_one_that_has_shown_itself_counts(rig: Rig, tmp_path: Path) -> None:
    """Two were started with the same launch: that the second one ends says nothing about the first."""
    rig.actors.register(Hand)
    launch_id, gate = new_id(), tmp_path / "gate"
    with rig.runtime.database.transaction() as tx:
        SpawnedStore(rig.runtime.database).begin(tx, SPAWNER, Hand.inbox, launch_id)
    question = rig.send(Hand, ["hold", str(gate)])
    SpawnedChildren().start(rig.runtime.settings, TASK, SPAWNER, launch_id)
    row = rig.wait_row(Hand, lambda row: row.percent == 40)
    others = SpawnedChildren()
    other = others.start(rig.runtime.settings, TASK, SPAWNER, launch_id)
    wait_until(lambda: other.life().exit_code == EXIT_REPLACED, 60, "the end of the second one")
    assert SpawnedControl(a_turn(rig, 1), others, 1.0).life(row, launch_id).is_alive
    gate.touch()
    assert rig.outbox.wait(question, 60).payload == "held"


def test_a_launch_that_may_have_a_process_is_remembered_while_the_database_is_away(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*given: Any) -> None:
        raise DatabaseUnavailable("restarting")

    rig.actors.register(Hand)
    turns = [a_turn(rig, attempts) for attempts in (1, 2)]
    monkeypatch.setattr(SpawnedStore, "read", away)
    launch = Launch(new_id(), 1)
    first, second = (Hand().transition(launch, turn) for turn in turns)
    assert first == Sleep(launch, seconds=Hand.look_s)
    assert second == Sleep(replace(launch, is_doubtful=True), seconds=Hand.look_s)
    monkeypatch.undo()
    with rig.runtime.database.transaction() as tx:
        SpawnedStore(rig.runtime.database).begin(tx, SPAWNER, Hand.inbox, launch.launch_id)
    after = Hand().transition(replace(launch, is_doubtful=True), turns[0])
    assert isinstance(after, Launch)  # another launch takes its place, and nothing is started under the old one
    assert after.launch_id != launch.launch_id
