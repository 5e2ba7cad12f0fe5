"""`towpath lane`: lanes, seen and steered on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.cli import CommandLine
from tests.support.sent import Sent

from towpath.runtime import Runtime

BY = ("--why", "a good reason", "--who", "ann")


@pytest.fixture
def sent(
    make_runtime: Callable[..., Runtime], tmp_path: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Sent:
    monkeypatch.chdir(tmp_path)
    log = f"sqlite:///{tmp_path}/log.db"
    monkeypatch.setenv("TOWPATH_LOG__URL", log)
    made = Sent.on(make_runtime(log={"url": log}), "shop")
    made.make_topics()
    made.replay(made.make(3), 300, jitter_s=5)
    made.replay(made.make(1), 3600)
    made.run_relay()
    return made


def test_lanes_are_listed(sent: Sent, command: CommandLine) -> None:
    items = command.ok("lane", "list", "--json").json["items"]
    assert [(each["flow"], each["lane"], each["delay_s"], each["jitter_s"], each["waiting"]) for each in items] == [
        ("shop", 0, 300.0, 5.0, 3),
        ("shop", 1, 3600.0, 0.0, 1),
    ]
    assert items[0]["topic"] == "shop.lanes"
    [head, first, second] = command.ok("lane", "list").lines
    assert head.split()[:3] == ["lane", "delay", "jitter"]
    assert first.split()[:4] == ["shop/0", "5m", "5s", "3"]
    assert second.split()[:3] == ["shop/1", "1h", "1"]
    assert command.ok("lane", "list", "--flow", "other").lines[1:] == []


def test_one_is_shown(sent: Sent, command: CommandLine) -> None:
    shown = command.ok("lane", "show", "shop/0").out
    assert "delay     5m" in shown
    assert "waiting   3" in shown
    assert command.ok("lane", "show", "shop/1", "--json").json["delay_s"] == 3600


def test_pause_and_resume(sent: Sent, command: CommandLine) -> None:
    command.ok("lane", "pause", "shop/0", *BY)
    command.ok("lane", "pause", "shop/0", *BY)
    assert command.ok("lane", "show", "shop/0", "--json").json["is_paused"] is True
    command.ok("lane", "resume", "shop/0", *BY)
    command.ok("lane", "resume", "shop/0", *BY)
    assert command.ok("lane", "show", "shop/0", "--json").json["is_paused"] is False
    events = command.ok("event", "list", "--kind", "lane_changed_by_hand", "--json").json["items"]
    assert [(each["subject"], each["who"], each["why"]) for each in events] == [("shop/0", "ann", "a good reason")] * 2


def test_hurry(sent: Sent, command: CommandLine) -> None:
    assert command.ok("lane", "hurry", "shop/0", *BY).out.startswith("3 records ")
    sent.run_replayer()
    assert len(sent.came_back()) == 3


def test_empty(sent: Sent, command: CommandLine) -> None:
    refused = command("lane", "empty", "shop/0", *BY)
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert command.ok("lane", "empty", "shop/0", "--yes", *BY).out.startswith("3 records ")
    assert sent.states() == {"open": 3, "waiting": 1}
    assert command.ok("lane", "empty", "shop/0", "--yes", *BY).out.startswith("0 records ")


def test_what_is_no_lane_is_refused(sent: Sent, command: CommandLine) -> None:
    command("lane", "show", "shop/9").refused(1, "lane 9", "towpath lane list")
    command("lane", "pause", "shop/9", *BY).refused(1, "lane 9")
    assert command("lane", "show", "shop").code == 2
    assert command("lane", "show", "shop/x").code == 2
    assert command("lane", "pause", "shop/0").code == 2, "a change needs a reason"
