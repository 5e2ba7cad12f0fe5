"""`towpath actor schedule`: starts by the clock, seen and changed on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.actors import Theatre
from tests.support.cli import CommandLine, on_terminal
from tests.support.sweep import sweep
from tests.support.tables import rows

from towpath.actors.instance import Phase
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

BY = ("--why", "a good reason", "--who", "ann")
COUNT = ("--payload", '{"upto": 1}')


@pytest.fixture(autouse=True)
def modules(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOWPATH_ACTORS__MODULES", '["tests.support.actors"]')


def schedule(command: CommandLine, *words: object) -> Any:
    return command.ok("actor", "schedule", *words, "--json").json


def test_what_is_added_runs(command: CommandLine, theatre: Theatre) -> None:
    added = schedule(command, "add", "often", "counter:s", "--every", "2s", *COUNT, *BY)
    assert (added["when"], added["payload"], added["outcome"]) == ("every 2 s", {"upto": 1, "n": 0}, "none")
    event = command.ok("event", "list", "--kind", "schedule_changed_by_hand", "--json").json["items"][0]
    assert (event["subject"], event["who"], event["why"]) == ("often", "ann", "a good reason")
    theatre.runtime.database.shift_clock(3)
    wait_until(lambda: theatre.actors.instances(actor="counter"), timeout_s=60)
    assert theatre.rest_of("counter", "s", timeout_s=60).phase is Phase.ENDED
    shown = schedule(command, "show", "often")
    assert shown["last_run"] in {each.id for each in theatre.messages("counter", "s")}
    out = command.ok("actor", "schedule", "show", "often").out
    assert "every 2 s\n" in out
    assert '{"upto": 1, "n": 0}\n' in out


@pytest.mark.parametrize(
    ("words", "when"),
    [
        (["--every", "15m"], "every 15 min"),
        (["--every", "1.5h", "--since", "run"], "every 90 min after the last run"),
        (["--daily", "03:30"], "daily at 03:30 UTC"),
        (["--daily", "3:05", "--zone", "Europe/Berlin"], "daily at 03:05 Europe/Berlin"),
        (["--window", "22-6"], "once between 22:00 and 06:00 UTC"),
    ],
)
def test_when(words: list[str], when: str, command: CommandLine, runtime: Runtime) -> None:
    assert schedule(command, "add", "s", "counter", *words, *COUNT, *BY)["when"] == when
    said = command.ok("actor", "schedule", "change", "s", "--every", "2d", *BY).out
    assert "every 48 h" in said


def test_change_enable_and_remove(command: CommandLine, runtime: Runtime) -> None:
    said = command.ok("actor", "schedule", "add", "s", "counter", "--daily", "03:30", "--disabled", *COUNT, *BY).out
    assert "daily at 03:30 UTC" in said
    assert schedule(command, "enable", "s", *BY) == {"name": "s", "is_enabled": True, "has_changed": True}
    command.ok("actor", "schedule", "enable", "s", *BY)
    changed = schedule(command, "change", "s", "--payload", '{"upto": 5}', "--instance", "b", *BY)
    assert (changed["payload"], changed["instance"], changed["when"]) == (
        {"upto": 5, "n": 0},
        "b",
        "daily at 03:30 UTC",
    )
    command.ok("actor", "schedule", "disable", "s", *BY)
    assert schedule(command, "list", "--actor", "counter")["items"][0]["next_at"] is None
    assert schedule(command, "list", "--actor", "asker") == {"items": []}
    command.ok("actor", "schedule", "remove", "s", *BY)
    assert schedule(command, "list") == {"items": []}


@pytest.mark.parametrize("width", [80, 120])
def test_a_list_fits_a_terminal(
    command: CommandLine, runtime: Runtime, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule(command, "add", "n" * 60, "counter:" + "i" * 60, "--window", "22-6", *COUNT, *BY)
    on_terminal(monkeypatch, width)
    lines = command.ok("actor", "schedule", "list").lines
    assert max(map(len, lines)) <= width
    assert "once between 22:00 and 06:00 UTC" in lines[-1]


@sweep(
    ("words", "code", "said"),
    [
        (["add", "s", "counter", *COUNT], 2, "--every 15m, --daily 03:30 or --window 22-6"),
        (["add", "s", "counter", "--every", "1h", "--daily", "3:00"], 2, "one of them"),
        (["add", "s", "counter", "--every", "soon"], 2, "--every 'soon'"),
        (["add", "s", "counter", "--every", "never"], 2, "schedule"),
        (["add", "s", "counter", "--daily", "noon"], 2, "--daily 'noon'"),
        (["add", "s", "counter", "--daily", "25:00", *COUNT], 1, "hour"),
        (["add", "s", "counter", "--window", "22"], 2, "--window '22'"),
        (["add", "s", "counter", "--daily", "3:00", "--zone", "Mars", *COUNT], 1, "'Mars'"),
        (["add", "s", "counter", "--every", "1h", "--zone", "UTC"], 2, "--zone"),
        (["add", "s", "counter", "--daily", "3:00", "--since", "run"], 2, "--every"),
        (["add", "s", "counter", "--every", "1h"], 1, "Count: upto"),
        (["add", "s", "counter", "--every", "1h", "--state", "Gone"], 1, "'Gone'"),
        (["add", "s", "nope", "--every", "1h"], 1, "'nope'"),
        (["add", "a b", "counter", "--every", "1h", *COUNT], 1, "schedule"),
        (["change", "s"], 2, "what to change"),
        (["change", "s", "--every", "1h"], 1, "'s'"),
        (["enable", "s"], 1, "'s'"),
        (["remove", "s"], 1, "'s'"),
    ],
)
def test_what_is_wrong(words: list[str], code: int, said: str, command: CommandLine, runtime: Runtime) -> None:
    command("actor", "schedule", *words, *BY).refused(code, said)
    assert rows(runtime.database, "actor_schedule") == []


def test_one_name_twice(command: CommandLine, runtime: Runtime) -> None:
    schedule(command, "add", "s", "counter", "--every", "1h", *COUNT, *BY)
    again = command("actor", "schedule", "add", "s", "counter", "--every", "1h", *COUNT, *BY)
    again.refused(1, "'s'")
    command("actor", "schedule", "change", "s", "--payload", '{"up": 1}', *BY).refused(1, "Count")
