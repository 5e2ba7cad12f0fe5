"""`towpath desk policy`: rules, seen, set, withdrawn and tried out on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import CommandLine
from tests.support.sent import Sent
from tests.support.sweep import sweep

from towpath.desk.cases.model import CaseState
from towpath.flow.stage.store import StageStore
from towpath.policy import Rule, repeat
from towpath.runtime import Runtime

BY = ("--why", "as agreed", "--who", "ann")
TOML = """
[[rule]]
policy = "repeat_after"
delays = {kind = "exponential", delay = "1m", times = 3}
jitter = "10s"
step = "priced"
exception = "KeyError"
where = "value.country = 'DE'"

[[rule]]
policy = "ignore"
approved_by = "Ann Lee"
until = "2099-01-31"
code = 9
"""


@pytest.fixture
def sent(
    make_runtime: Callable[..., Runtime], tmp_path: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Sent:
    monkeypatch.chdir(tmp_path)
    Path("rules.toml").write_text(TOML, encoding="utf-8")
    made = Sent.on(make_runtime(log={"url": f"sqlite:///{tmp_path}/log.db"}), "shop")
    with made.runtime.database.transaction() as tx:
        StageStore(made.runtime.database).ensure(tx, "shop", "main", {})
    made.runtime.policies.declare("shop", None, [Rule.of(repeat(3))])
    return made


def test_rules_of_a_file_are_set_and_listed(sent: Sent, command: CommandLine) -> None:
    said = command.ok("desk", "policy", "set", "shop", "--file", "rules.toml", *BY).out
    assert "version 1 " in said
    items = command.ok("desk", "policy", "list", "--json").json["items"]
    assert [(each["origin"], each["version"], each["who"], len(each["rules"])) for each in items] == [
        ("operator", 1, "ann", 2),
        ("code", 1, "the flow's code", 1),
    ]
    lines = command.ok("desk", "policy", "list").lines
    assert [line.split()[0] for line in lines[1:]] == ["shop/operator/1/0", "shop/operator/1/1", "shop/code/1/0"]
    assert "1m, 2m, 4m" in lines[1]
    assert [part for part in ("2099-02-01", "Ann Lee") if part not in lines[2]] == []
    assert "repeat" in lines[3]


def test_rules_may_be_given_on_the_command_line_and_added(sent: Sent, command: CommandLine) -> None:
    command.ok("desk", "policy", "set", "shop", "--rule", '{"policy": "isolate", "code": 7}', *BY)
    made = command.ok(
        *("desk", "policy", "set", "shop", "--rule", '{"policy": "repeat", "times": 2}', "--add", *BY, "--json")
    ).json
    assert (made["version"], [rule["policy"] for rule in made["rules"]]) == (2, ["repeat", "isolate"])
    refused = command("desk", "policy", "set", "shop", "--file", "rules.toml", "--after", "1", *BY)
    refused.refused(1, "version 2")
    Path("rules.json").write_text(json.dumps([{"policy": "isolate"}]), encoding="utf-8")
    command.ok("desk", "policy", "set", "shop", "--file", "rules.json", "--after", "2", *BY)


def test_all_versions_are_shown(sent: Sent, command: CommandLine) -> None:
    command.ok("desk", "policy", "set", "shop", "--file", "rules.toml", *BY)
    shown = command.ok("desk", "policy", "show", "shop").out
    assert "shop/operator/1" in shown
    assert "as agreed" in shown
    assert len(command.ok("desk", "policy", "show", "shop", "--json").json["items"]) == 2
    command("desk", "policy", "show", "other").refused(1, "other")


@sweep(
    ("rule", "code", "said"),
    [
        ('{"policy": "isolate", "where": "value.country = DE"}', 1, "character 17"),
        ('{"policy": "forget"}', 1, "forget"),
        ('{"policy": "ignore", "approved_by": "Ann", "until": "2020-01-01"}', 1, "is over"),
        ('{"policy": "ignore", "until": "2099-01-01"}', 1, "approved_by"),
        ("[1]", 1, "a table"),
        ("{", 2, "not valid JSON"),
    ],
)
def test_nonsense_is_refused(sent: Sent, command: CommandLine, rule: str, code: int, said: str) -> None:
    ran = command("desk", "policy", "set", "shop", "--rule", rule, *BY)
    assert (ran.code, said in ran.err) == (code, True), ran.err
    assert len(command.ok("desk", "policy", "list", "--json").json["items"]) == 1


def test_files_that_cannot_be_read_are_refused(sent: Sent, command: CommandLine) -> None:
    Path("broken.toml").write_text("[[rule", encoding="utf-8")
    Path("odd.json").write_text('{"policy": "isolate"}', encoding="utf-8")
    assert "TOML" in command("desk", "policy", "set", "shop", "--file", "broken.toml", *BY).err
    assert "list" in command("desk", "policy", "set", "shop", "--file", "odd.json", *BY).err
    assert "nowhere.toml" in command("desk", "policy", "set", "shop", "--file", "nowhere.toml", *BY).err
    assert command("desk", "policy", "set", "shop", *BY).code == 2
    command("desk", "policy", "set", "shopp", "--file", "rules.toml", *BY).refused(1, "shop")


def test_withdrawing_an_ignore_opens_what_it_ignored_when_that_is_wanted(sent: Sent, command: CommandLine) -> None:
    command.ok("desk", "policy", "set", "shop", "--file", "rules.toml", *BY)
    dismissed: dict[str, Any] = {"state": CaseState.IGNORED, "settled_by": "Ann Lee", "settled_why": "rule"}
    sent.make(2, rule="shop/operator/1/1", **dismissed)
    left = command.ok("desk", "policy", "withdraw", "shop", "1", *BY).out
    assert " 2 cases" in left
    assert sent.states() == {"ignored": 2}
    command.ok("desk", "policy", "set", "shop", "--file", "rules.toml", *BY)
    done = command.ok("desk", "policy", "withdraw", "shop", "1", "--open", *BY, "--json").json
    assert (done["version"], done["ignored"], done["opened"]) == (4, 2, 2)
    assert sent.states() == {"open": 2}
    command("desk", "policy", "withdraw", "shop", "7", *BY).refused(1, "number 7")


def test_a_dry_run(sent: Sent, command: CommandLine) -> None:
    sent.make(3, [b'{"country": "DE"}', b'{"country": "FR"}', b"broken"])
    ran = command.ok("desk", "policy", "try", "shop", "--file", "rules.toml")
    assert ran.lines[1].split()[0] == "shop/operator/new/0"
    assert "1 repeat after" in ran.lines[1]
    assert "2 ignore" in ran.lines[2]
    assert ran.lines[-1].startswith("3 cases")
    now = command.ok("desk", "policy", "try", "shop", "--json").json
    assert [(each["name"], each["cases"]) for each in now["rules"]] == [("shop/code/1/0", 3)]
    assert sent.states() == {"open": 3}
