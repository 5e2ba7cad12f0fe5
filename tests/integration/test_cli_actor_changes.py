"""`towpath actor`: starts, aborts and switches by hand. Each leaves who, what and why; a refused one leaves nothing."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.actors import Do, Doer, Gate, Nap, Sleeper, Theatre
from tests.support.cli import CommandLine
from tests.support.sweep import sweep
from tests.support.tables import rows

from towpath.actors import End, Failed, Sleep, Wait
from towpath.actors.instance import Phase
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

BY = ("--why", "a good reason", "--who", "ann")


@pytest.fixture(autouse=True)
def modules(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The settings of the test's database, and the modules with its actors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOWPATH_ACTORS__MODULES", '["tests.support.actors"]')


def last_event(command: CommandLine) -> dict[str, Any]:
    event: dict[str, Any] = command.ok("event", "list", "--limit", 1, "--json").json["items"][0]
    return event


def explode(turn: object) -> None:
    raise ValueError("no such page")


# Starts


def test_start(command: CommandLine, theatre: Theatre) -> None:
    run = command.ok("actor", "start", "counter", "--payload", '{"upto": 2}', "--json", *BY).json["run"]
    assert theatre.rest_of("counter").run_id == run
    assert [each.payload.get("n") for each in theatre.messages("counter")[:-1]] == [0, 0, 1, 2]
    event = last_event(command)
    assert (event["kind"], event["subject"], event["who"]) == ("actor_started_by_hand", "counter:main", "ann")
    assert (event["why"], event["data"]) == ("a good reason", {"state": "Count", "run": run})
    out = command.ok("actor", "start", "sleeper:x", "--state", "Awake", *BY).out
    assert "sleeper:x" in out
    assert theatre.rest_of("sleeper", "x").phase is Phase.ENDED


def test_payload_from_a_file_and_from_standard_input(
    command: CommandLine, theatre: Theatre, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fields.json").write_text('{"upto": 1}')
    command.ok("actor", "start", "counter:f", "--payload", "@fields.json", *BY)
    filled = command.ok("actor", "template", "counter").out.replace('"upto": 0', '"upto": 3')
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(filled.encode())))
    command.ok("actor", "start", "counter:s", "--payload", "-", *BY)
    for instance, result in (("f", 1), ("s", 3)):
        theatre.rest_of("counter", instance)
        assert theatre.messages("counter", instance)[-1].payload == {"result": result}


def test_start_and_wait(command: CommandLine, theatre: Theatre) -> None:
    ran = command.ok("actor", "start", "counter", "--payload", '{"upto": 2}', "--wait", 30, "--json", *BY)
    assert ran.json["answer"] == {"state": "OK", "payload": 2}
    assert command.ok("actor", "start", "counter", "--payload", '{"upto": 4}', "--wait", 30, *BY).out.endswith(", 4\n")
    Doer.actions["explode"] = explode
    failed = command("actor", "start", "doer", "--payload", '{"what": "explode"}', "--wait", 30, *BY)
    assert failed.code == 1
    assert "doer:main" in failed.out
    assert failed.out.endswith("ValueError: no such page\n")


def test_a_refused_start_says_so(command: CommandLine, theatre: Theatre) -> None:
    theatre.actors.start(Sleeper, Nap(3600))
    wait_until(lambda: theatre.actors.instance("sleeper").phase is Phase.SLEEPING)
    ran = command("actor", "start", "sleeper", "--payload", '{"seconds": 1}', "--wait", 30, *BY)
    assert ran.code == 1
    assert ran.out.startswith("sleeper:main ")


def test_an_end_that_does_not_come_in_time(command: CommandLine, theatre: Theatre) -> None:
    ran = command("actor", "start", "sleeper", "--payload", '{"seconds": 3600}', "--wait", 0.2, *BY)
    ran.refused(1, "0.2 s", "towpath actor show sleeper:main")


@sweep(
    ("words", "code", "said"),
    [
        (["nope"], 1, "'nope'"),
        (["counter"], 1, "Count: upto"),
        (["counter", "--payload", '{"upto": "many"}'], 1, "Count: upto"),
        (["counter", "--payload", "[1]"], 1, "Count"),
        (["counter", "--payload", "{bad"], 1, "JSON"),
        (["counter", "--payload", "@gone.json"], 2, "gone.json"),
        (["counter", "--state", "Gone"], 1, "'Gone'"),
        (["counter", "--again", "--state", "Count"], 2, "--again"),
        (["counter", "--again"], 1, "counter:main"),
        (["counter:a//b", "--payload", '{"upto": 1}'], 1, "instance"),
        (["counter:a b", "--payload", '{"upto": 1}'], 1, "instance"),
        ([":x"], 2, "':x'"),
    ],
)
def test_wrong_starts_send_nothing(
    words: list[str], code: int, said: str, command: CommandLine, runtime: Runtime
) -> None:
    command("actor", "start", *words, *BY).refused(code, said)
    assert rows(runtime.database, "message") == []
    assert rows(runtime.database, "actor_instance") == []


def test_one_that_sleeps_is_woken(command: CommandLine, theatre: Theatre) -> None:
    theatre.actors.start("sleeper", Nap(3600))
    wait_until(lambda: theatre.actors.instance("sleeper").phase is Phase.SLEEPING)
    command.ok("actor", "wake", "sleeper", *BY)
    assert theatre.rest_of("sleeper").phase is Phase.ENDED
    command("actor", "wake", "sleeper", *BY).refused(1, "sleeper:main is ended")


@sweep("words", [["start", "counter"], ["abort", "counter"], ["wake", "counter"], ["disable", "counter"]])
def test_a_change_needs_a_reason(words: list[str], command: CommandLine, runtime: Runtime) -> None:
    command("actor", *words).refused(2, "'--why'")
    command("actor", *words, "--why", " ").refused(2, "blank")


def test_a_start_without_the_code(command: CommandLine, theatre: Theatre, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process has written down of the class is enough to find most mistakes."""
    monkeypatch.setenv("TOWPATH_ACTORS__MODULES", "[]")
    command("actor", "start", "counter", "--state", "Gone", *BY).refused(1, "'Gone'")
    command("actor", "start", "counter", "--payload", '{"up": 1}', *BY).refused(1, "upto, n")
    command("actor", "start", "counter", "--payload", "3", *BY).refused(1, "object")
    command.ok("actor", "start", "counter", "--payload", '{"upto": 1}', "--wait", 30, *BY)
    assert json.loads(command.ok("actor", "template", "counter").out) == {"upto": 0, "n": 0}
    assert "▶ Count (retry)" in command.ok("actor", "graph", "counter").out


# Again


def test_again_from_the_state_that_failed(command: CommandLine, theatre: Theatre) -> None:
    tries: list[int] = []

    def second(turn: object) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not yet")
        return End(len(tries))

    Doer.actions.update(first=lambda turn: Do("second"), second=second)
    theatre.actors.start(Doer, Do("first"))
    assert theatre.rest_of("doer").phase is Phase.FAILED
    ran = command.ok("actor", "start", "doer", "--again", "--wait", 30, "--json", *BY)
    assert ran.json["answer"]["payload"] == 2
    assert [each.payload for each in theatre.messages("doer")[-3:-1]] == [{"what": "second"}] * 2
    command("actor", "start", "doer", "--again", *BY).refused(1, "doer:main is ended")


def test_again_after_an_abort_and_after_a_failure_that_was_returned(command: CommandLine, theatre: Theatre) -> None:
    Doer.actions["sleep"] = lambda turn: Sleep(Do("awake"), seconds=3600)
    Doer.actions["awake"] = lambda turn: Failed("as it said")
    theatre.actors.start(Doer, Do("sleep"))
    wait_until(lambda: theatre.actors.instance("doer").phase is Phase.SLEEPING)
    command.ok("actor", "abort", "doer", *BY)
    assert "ann: a good reason" in (theatre.rest_of("doer").reason or "")
    for _ in range(2):  # it goes on where it slept, and then where it failed
        assert command("actor", "start", "doer", "--again", "--wait", 30, *BY).out.endswith("as it said\n")


@pytest.mark.parametrize("is_aborted", [True, False])
def test_again_where_a_wait_was_in_vain(command: CommandLine, theatre: Theatre, is_aborted: bool) -> None:
    """The state behind the wait would find no answer: the one that asked asks again."""
    asked: list[str] = []

    def ask(turn: Any) -> Wait:
        asked.append(turn.send("work", "ASK"))
        return Wait(asked[-1], Do("heard"), timeout_s=3600 if is_aborted else 0.1)

    theatre.runtime.queue.inbox("work")
    Doer.actions["ask"] = ask
    theatre.actors.start(Doer, Do("ask"))
    if is_aborted:
        wait_until(lambda: theatre.actors.instance("doer").phase is Phase.WAITING)
        command.ok("actor", "abort", "doer", *BY)
    assert theatre.rest_of("doer").phase is Phase.FAILED
    out = command.ok("actor", "start", "doer", "--again", *BY).out
    assert '{"what": "ask"}' in out
    wait_until(lambda: len(asked) == 2, timeout_s=30)


# Aborts and switches


def test_abort(command: CommandLine, theatre: Theatre) -> None:
    gate = Gate()
    Doer.actions["wait"] = gate
    theatre.actors.start(Doer, Do("wait"))
    assert gate.begun.wait(30)
    out = command.ok("actor", "abort", "doer", *BY).out
    gate.go_on.set()
    assert "doer:main" in out
    assert "ann: a good reason" in (theatre.rest_of("doer").reason or "")
    command("actor", "abort", "doer", *BY).refused(1, "doer:main is failed")
    command("actor", "abort", "nope", *BY).refused(1, "nope:main")


def test_disable_and_enable(command: CommandLine, theatre: Theatre) -> None:
    command.ok("actor", "disable", "counter", *BY)
    event = last_event(command)
    assert (event["kind"], event["subject"]) == ("actor_switched_by_hand", "counter")
    assert command.ok("actor", "disable", "counter", "--json", *BY).json == {
        "actor": "counter",
        "is_enabled": False,
        "has_changed": False,
    }
    wait_until(lambda: "counter" in theatre.host._disabled, timeout_s=30)
    refused = command("actor", "start", "counter", "--payload", '{"upto": 1}', "--wait", 30, *BY)
    assert "disabled" in refused.out
    command.ok("actor", "enable", "counter", *BY)
    command.ok("actor", "start", "counter", "--payload", '{"upto": 1}', "--wait", 30, *BY)
    command("actor", "disable", "nope", *BY).refused(1, "'nope'")


def test_a_class_that_nobody_has_run_can_be_disabled(command: CommandLine, runtime: Runtime) -> None:
    command.ok("actor", "disable", "counter", *BY)
    assert {each.name for each in runtime.actors.known() if not each.is_enabled} == {"counter"}
