"""`towpath desk correct` and `towpath desk rehearse`, from words to exit code."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import CommandLine
from tests.support.desk import DeskFlow, intake_of, rows, take_all
from tests.support.flows import World
from tests.support.taught import NO_CITY, city_rule, teach

import towpath
from towpath.cli.context import UsageError
from towpath.cli.desk.rehearsals import BY_CODE, flow_to_try
from towpath.runtime import Runtime
from towpath.settings import Settings

FLOW = """
from towpath import Flow, table, topic

flow = Flow("{name}")


@flow.each(topic("{name}-orders"))
def priced(order):
    {body}


flow.load(priced, table("orders", id="{{n}}", url="sqlite:///{home}/out.db"))
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """A database in the working directory, with a rule and a case."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOWPATH_DATABASE__URL", f"sqlite:///{tmp_path}/towpath.db")
    runtime = towpath.connect(f"sqlite:///{tmp_path}/towpath.db")
    teach(runtime)
    DeskFlow(runtime).fail(9000, failure=NO_CITY, value=b'{"id":1,"postcode":"80331","city":null}')
    take_all(intake_of(runtime))
    yield runtime
    runtime.close()


def test_from_a_suggestion_to_a_rule_and_back(shop: Runtime, command: CommandLine) -> None:
    rule = city_rule(shop.corrections.rules("shop"))
    listed = command.ok("desk", "correct", "rules", "--flow", "shop", "--json").json["items"]
    assert {item["state"] for item in listed} == {"suggested"}
    assert "postcode → city" in command.ok("desk", "correct", "rules").out
    assert "200" in command.ok("desk", "correct", "show", rule.id).out
    said = command.ok("desk", "correct", "suggest", 1)
    assert "München" in said.out
    assert command.ok("desk", "correct", "suggest", 1, "--json").json["doubt"]
    done = command.ok("desk", "correct", "on", rule.id, "--why", "checked", "--support", 9, "--json").json
    assert (done["state"], done["support"]) == ("on", 9)
    assert command.ok("desk", "correct", "suggest", 1, "--json").json["doubt"] is None
    assert command.ok("desk", "correct", "report", "shop", "--json").json["corrected"] == 0
    assert "coverage" in command.ok("desk", "correct", "report", "shop").out
    assert "is off" in command.ok("desk", "correct", "off", rule.id, "--why", "no").out
    assert command.ok("desk", "correct", "revert", rule.id, "--why", "no", "--json").json["touched"] == []


def test_what_is_wrong_is_said_in_one_line(shop: Runtime, command: CommandLine) -> None:
    command("desk", "correct", "show", 99).refused(1, "rule 99", "towpath desk correct rules")
    command("desk", "correct", "off", 99, "--why", "x").refused(1, "rule 99")
    command("desk", "correct", "rules", "--state", "odd").refused(2, "--state odd")
    command("desk", "correct", "suggest", "zzzz").refused(1, "zzzz")
    command("desk", "correct", "learn", "nobody").refused(1, "nobody")
    command("desk", "rehearse", 77).refused(1, "group 77")
    command("desk", "rehearse", 1, "--replay-passing").refused(2, "--why")
    command("desk", "rehearse", 1).refused(2, "flow shop")


def test_which_code_is_rehearsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two files with the flow none is taken in silence; what `towpath up` runs is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for file in ("one_shop", "other_shop"):
        (tmp_path / f"{file}.py").write_text(FLOW.format(name="shop", home=tmp_path, body="return order"))
    with pytest.raises(UsageError, match=r"one_shop.py:flow .*other_shop.py:flow.* --flow"):
        flow_to_try(None, "shop", Settings(), tmp_path)
    with pytest.raises(UsageError, match=r"desk\.code"):
        flow_to_try(None, "shop", Settings(), tmp_path, how=BY_CODE)
    assert flow_to_try("other_shop:flow", "shop", Settings(), tmp_path).target == "other_shop:flow"
    for target in ("other_shop:flow", "other_shop.py", "other_shop.py:flow"):
        settings = Settings(up={"shop": {"kind": "flow", "target": target}, "desk": {"kind": "desk"}})
        tried = flow_to_try(None, "shop", settings, tmp_path)
        assert tried.target == "other_shop.py:flow"
        assert tried.found.module.__name__ == "other_shop"
    elsewhere = Settings(up={"other": {"kind": "flow", "target": "not_there:flow"}})
    (tmp_path / "one_shop.py").unlink()
    assert flow_to_try(None, "shop", elsewhere, tmp_path).target == "other_shop.py:flow"


@pytest.mark.part("matrix")
def test_rehearse_finds_the_flow_of_the_directory(embedded: World, name: str, tmp_path: Path) -> None:
    """Cases of a broken flow; the file in the directory is mended; those that pass are replayed."""
    from towpath.flow.flow import find_flow

    broken = tmp_path / "broken.txt.py"
    broken.write_text(FLOW.format(name=name, home=tmp_path, body="raise KeyError(order['n'])"))
    embedded.send(f"{name}-orders", [{"n": at} for at in range(10)])
    embedded.run(find_flow(f"{broken}:flow").flow)
    broken.unlink()
    take_all(intake_of(embedded.runtime))
    [(group,)] = rows(embedded.runtime.database, "select id from desk_group")
    body = "return {**order, 'price': 1} if order['n'] % 2 else 1 // 0"
    (tmp_path / "shop.py").write_text(FLOW.format(name=name, home=tmp_path, body=body))
    sections = {"database": embedded.place.database, "spark": {"master": "local[1]"}, "flow": {"directory": "flows"}}
    lines = [
        line
        for part, values in sections.items()
        for line in (f"[{part}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items()))
    ]
    (tmp_path / "towpath.toml").write_text("\n".join(lines))
    words = ["desk", "rehearse", str(group), "--replay-passing", "--why", "mended", "--who", "ada", "--json"]
    ran = subprocess.run(
        [sys.executable, "-m", "towpath", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["counts"] == {"loads": 5, "filtered": 0, "same": 0, "otherwise": 5, "untried": 0}
    assert (found["replayed"], found["tried_with"]) == (5, "shop.py:flow")
    states = rows(embedded.runtime.database, "select state, count(*) from desk_case group by state order by state")
    assert states == [("open", 5), ("replaying", 5)]
    with sqlite3.connect(tmp_path / "out.db") as sink:
        assert sink.execute("select count(*) from orders").fetchall() == [(0,)]
