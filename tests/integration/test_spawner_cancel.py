"""Ending what a spawner runs: its whole run, or only the work on one message."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.spawned import Hand, Rig, Stubborn, is_spawned

from towpath.actors.instance import Phase
from towpath.errors import RequestDied
from towpath.queue import MessageState
from towpath.testing.clock import wait_until


@pytest.mark.part("kills")
def test_abort_of_the_run_ends_the_process(rig: Rig, tmp_path: Path) -> None:
    rig.run(Hand)
    question = rig.send(Hand, ["hold", str(tmp_path / "gate")])
    waiting = rig.send(Hand, ["double", 1])
    row = rig.wait_row(Hand, lambda row: row.percent == 40)
    rig.actors.abort("hand", who="lev", why="wrong site")
    assert "lev: wrong site" in rig.wait_failed(Hand)
    assert row.pid is not None
    assert not is_spawned(row.pid)
    with pytest.raises(RequestDied, match="lev: wrong site"):
        rig.outbox.wait(question, 60)
    assert rig.message(waiting).state == "NEW"
    after = rig.row(Hand)
    assert after is not None
    assert not after.is_running
    assert "lev: wrong site" in (after.ended or "")
    rig.actors.start(Hand)
    assert rig.outbox.wait(waiting, 60).payload == 2


def test_abort_kills_what_does_not_end(rig: Rig) -> None:
    rig.run(Stubborn)
    rig.send(Stubborn, "it")
    row = rig.wait_row(Stubborn, lambda row: row.message_id is not None)
    wait_until(lambda: rig.journal("began"), 60)
    rig.actors.abort("stubborn", who="lev", why="enough")
    rig.wait_failed(Stubborn)
    assert row.pid is not None
    assert not is_spawned(row.pid)
    assert rig.journal("was told") == ["was told Cancelled"]


def test_abort_while_no_process_runs(rig: Rig) -> None:
    rig.run(Hand)
    wait_until(lambda: rig.instance(Hand).phase is Phase.SLEEPING)
    rig.actors.abort("hand", who="lev", why="not needed")
    assert "lev: not needed" in rig.wait_failed(Hand)


@pytest.mark.part("kills")
def test_an_operator_ends_the_work_on_one_message(rig: Rig, tmp_path: Path) -> None:
    rig.run(Hand)
    question = rig.send(Hand, ["hold", str(tmp_path / "gate")])
    row = rig.wait_row(Hand, lambda row: row.percent == 40)
    rig.runtime.queue.operator("lev").set_state(question, MessageState.DEAD, "wrong site")
    with pytest.raises(RequestDied, match="lev: wrong site"):
        rig.outbox.wait(question, 60)
    assert rig.ask(Hand, ["double", 5]).payload == 10  # it goes on, with another process
    assert row.pid is not None
    assert not is_spawned(row.pid)
    assert len(rig.journal("process ")) == 2
    assert rig.message(question).state == "DEAD"


@pytest.mark.part("kills")
def test_an_operator_ends_the_work_of_one_that_does_not_listen(rig: Rig) -> None:
    rig.run(Stubborn)
    question = rig.send(Stubborn, "it")
    row = rig.wait_row(Stubborn, lambda row: row.message_id is not None)
    wait_until(lambda: rig.journal("began"), 60)
    rig.runtime.queue.operator("lev").set_state(question, MessageState.NEW, "begin anew")
    rig.wait_row(Stubborn, lambda now: now.launch_id not in (None, row.launch_id) and now.message_id == question)
    assert row.pid is not None
    assert not is_spawned(row.pid)
    assert rig.instance(Stubborn).is_live
