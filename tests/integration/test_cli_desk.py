"""The desk on the command line: lists, one case, changes, edits, jobs and exports, for people and for programs."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import CommandLine, on_terminal
from tests.support.desk_world import FAILURE, FLOW, World

from towpath.desk.actions.actions import JobKind
from towpath.desk.cases.model import CaseSelection, CaseState
from towpath.runtime import Runtime

WHY = ("--why", "mended", "--who", "ada")
NASTY = "\x1b[2J\x07\u202e<script>alert(1)</script>\r\nnext"


@pytest.fixture
def world(desk_runtime: Runtime, desk_variables: None) -> World:
    return World(desk_runtime)


def ids(items: Any) -> list[str]:
    return [item["id"] for item in items["items"]]


# Looking


def test_list_filters_and_pages(command: CommandLine, world: World) -> None:
    cases = world.cases(3)
    other = world.case(failure=FAILURE._replace(step="tax", message="no tax"))
    world.desk.operate.abandon([cases[0].id], who="ada", why="x")
    first = command.ok("desk", "list", "--limit", 2, "--json").json
    assert ids(first) == [other.id, cases[2].id]
    assert ids(command.ok("desk", "list", "--before", first["next"], "--json").json) == [cases[1].id]
    assert ids(command.ok("desk", "list", "--step", "tax", "--json").json) == [other.id]
    assert ids(command.ok("desk", "list", "--state", "abandoned", "--json").json) == [cases[0].id]
    assert len(ids(command.ok("desk", "list", "--settled", "--json").json)) == 4
    assert ids(command.ok("desk", "list", "--text", "no tax", "--since", "1h", "--json").json) == [other.id]
    assert ids(command.ok("desk", "list", "--until", "1h", "--json").json) == []
    assert ids(command.ok("desk", "list", "--body", f'"id":{cases[1].offset}', "--json").json) == [cases[1].id]
    lines = command.ok("desk", "list").lines
    assert lines[0].split()[:4] == ["case", "state", "group", "flow"]
    assert lines[1].split()[:2] == [str(other.seq), "open"]
    nothing = command.ok("desk", "list", "--text", "no such text").out
    assert "--settled" in nothing
    assert ids(command.ok("desk", "list", "--group", 77, "--settled", "--json").json) == []
    assert command.ok("desk", "groups", "--flow", "nobody", "--json").json["items"] == []
    command("desk", "list", "--state", "nowhere").refused(2, "'nowhere'", "abandoned")
    command("desk", "list", "--since", "yesterday").refused(2, "--since 'yesterday'")


def test_show_has_all_that_is_known(command: CommandLine, world: World) -> None:
    case = world.case(b'{"id":1,"city":"Bon"}', headers=(("type", b"order"),))
    command.ok("desk", "edit", case.seq, "--set", 'city="Bonn"', *WHY)
    command.ok("desk", "note", case.id[:8], "asked the shop", "--who", "bob")
    shown = command.ok("desk", "show", case.seq).out
    for part in (
        case.id,
        "KeyError: no price for 17",
        f"{case.group_id}: KeyError: no price for #",
        "attempt 1",
        '"city": "Bonn"',
        '- city: "Bon"',
        '+ city: "Bonn"',
        "asked the shop",
        "header type: order",
    ):
        assert part in shown
    item = command.ok("desk", "show", case.id, "--json").json
    assert json.loads(item["value"]) == {"id": 1, "city": "Bonn"}
    assert [each["what"] for each in item["history"]] == ["edited", "noted"]
    command("desk", "show", "999999").refused(1, "999999")


def test_nothing_moves_the_cursor_of_a_terminal(command: CommandLine, world: World) -> None:
    """Bodies, keys, headers and messages hold whatever broke the flow."""
    case = world.case(
        NASTY.encode(), failure=FAILURE._replace(message=NASTY), key=NASTY.encode(), headers=(("h", NASTY.encode()),)
    )
    world.desk.operate.note(case.id, NASTY, who="ada")
    world.desk.groups.note(case.group_id, NASTY, who="ada")
    binary = world.case(bytes(range(256)))
    for words in (["list"], ["show", case.seq], ["show", binary.seq], ["groups"], ["group", "show", case.group_id]):
        out = command.ok("desk", *words).out
        assert not set(out) & {"\x1b", "\x07", "\r", "\u202e"}, words
    assert "\\x1b[2J" in command.ok("desk", "show", case.seq).out
    assert "00 01 02" in command.ok("desk", "show", binary.seq).out
    assert command.ok("desk", "show", case.seq, "--json").json["value"] == NASTY


def test_a_large_body_is_cut_and_can_be_saved(command: CommandLine, world: World, tmp_path: Path) -> None:
    value = b'{"text":"' + b"x" * 200_000 + b'"}'
    case = world.case(value)
    out = command.ok("desk", "show", case.seq, "--save", tmp_path / "body").out
    assert len(out) < 30_000
    assert "--save" in out
    assert (tmp_path / "body").read_bytes() == value


def test_masked(command: CommandLine, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_DESK__MASKED", json.dumps({FLOW: ["city"]}))
    case = world.case(b'{"id":1,"city":"Bonn"}')
    assert "Bonn" in command.ok("desk", "show", case.seq).out
    for words in (
        ["show", case.seq],
        ["show", case.seq, "--json"],
        ["list"],
        ["export"],
        ["export", "--format", "csv"],
    ):
        assert "Bonn" not in command.ok("desk", *words, "--masked").out


def test_the_error_record_by_its_offset(command: CommandLine, world: World) -> None:
    from towpath.log import NewRecord

    ((_, offset),) = world.runtime.log.append(f"{FLOW}.errors", [NewRecord(b'{"id":1}')])
    case = world.case(error_offset=offset)
    gone = world.case(error_offset=999)
    assert f"{FLOW}.errors/0/{offset}" in command.ok("desk", "show", case.seq, "--record").out
    assert command.ok("desk", "show", case.seq, "--record", "--json").json["record"]["value"] == '{"id":1}'
    command.ok("desk", "show", gone.seq, "--record")


# Changes


def test_named_cases_are_sent_back(command: CommandLine, world: World) -> None:
    cases = world.cases(3)
    ran = command.ok("desk", "replay", cases[0].seq, cases[1].id[:8], *WHY)
    assert f"{cases[0].seq}, {cases[1].seq}" in ran.out
    ran = command.ok("desk", "replay", cases[2].seq, "--delay", "15m", "--json", *WHY)
    assert ran.json == {"done": [cases[2].id], "refused": {}}
    assert world.states() == {"replaying": 2, "waiting": 1}
    command.ok("desk", "recall", cases[2].seq, *WHY)
    ran = command("desk", "replay", cases[2].seq, cases[0].seq, *WHY)
    assert ran.code == 1
    assert world.read(cases[2]).state is CaseState.REPLAYING
    assert f"case {cases[0].seq}: it is replaying" in ran.out
    waits = world.case()
    command.ok("desk", "replay", waits.seq, "--delay", "15m", *WHY)
    again = command("desk", "replay", waits.seq, "--delay", "15m", *WHY)
    again.refused(1, f"case {waits.seq} is waiting")
    command("desk", "replay", cases[0].seq, *WHY).refused(1, "replaying")
    command("desk", "replay", cases[0].seq, "--delay", "soon", *WHY).refused(2, "--delay 'soon'")
    command("desk", "replay", *WHY).refused(2, "--all")
    command("desk", "replay", cases[0].seq).refused(2, "--why")


def test_all_that_match_is_another_thing_than_some_that_are_named(command: CommandLine, world: World) -> None:
    cases = world.cases(3)
    command("desk", "replay", "--flow", FLOW, *WHY).refused(2, "--all")
    command("desk", "replay", cases[0].seq, "--all", *WHY).refused(2, "both")
    command("desk", "replay", cases[0].seq, "--rate", 5, *WHY).refused(2, "--all")
    command("desk", "replay", "--all", "--group", 77, "--yes", *WHY).refused(1, "group 77")
    command("desk", "replay", "--all", "--flow", FLOW, *WHY).refused(2, "--yes")
    assert world.states() == {"open": 3}
    dry = command.ok("desk", "replay", "--all", "--flow", FLOW, "--dry-run", "--name", "try", *WHY)
    assert "'try'" in dry.out
    assert "3 cases" in dry.out
    job = command.ok("desk", "abandon", "--all", "--flow", FLOW, "--yes", "--json", *WHY).json
    assert (job["state"], job["cases"], job["kind"]) == ("filling", 3, "abandon")
    with world.hosted():
        world.ended(world.desk.jobs.find(job["id"]))
        assert command.ok("desk", "job", "begin", 1, *WHY).code == 0
        shown = command.ok("desk", "job", "show", 1, "--wait", "--json").json
    assert (shown["state"], shown["cases"]) == ("finished", 0)
    assert world.states() == {"abandoned": 3}
    assert "3 abandoned" in command.ok("desk", "job", "show", 2).out


def test_the_count_is_asked_on_a_terminal(command: CommandLine, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.cases(3)
    monkeypatch.setattr(sys, "stdin", _Typed("n\n"))
    ran = command("desk", "replay", "--all", *WHY)
    assert "3 cases" in ran.err
    assert ran.code == 1
    assert world.states() == {"open": 3}
    monkeypatch.setattr(sys, "stdin", _Typed("y\n"))
    assert command.ok("desk", "replay", "--all", *WHY).out.lstrip().startswith("job 1")


class _Typed(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_abandon_open_assign_resend(command: CommandLine, world: World) -> None:
    one, two, three = world.cases(3)
    ignored = world.case(state=CaseState.IGNORED)
    command("desk", "abandon", one.seq, *WHY).refused(2, "--yes")
    command.ok("desk", "abandon", one.seq, "--yes", *WHY)
    command.ok("desk", "open", ignored.seq, *WHY)
    command.ok("desk", "assign", two.seq, "--to", "bob", *WHY)
    assert ids(command.ok("desk", "list", "--assignee", "bob", "--json").json) == [two.id]
    command.ok("desk", "resend", three.seq, *WHY)


def test_edits(command: CommandLine, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = world.case(b'{"id":1,"city":"Bon"}')
    ran = command.ok("desk", "edit", case.seq, "--value", '{"id":1,"city":"Bonn"}', *WHY)
    assert f"towpath desk replay {case.seq}" in ran.out
    (tmp_path / "new.json").write_text('{"id":1,"city":"Berlin"}')
    item = command.ok("desk", "edit", case.seq, "--value", f"@{tmp_path}/new.json", "--json", *WHY).json
    assert item["changes"] == [{"path": "city", "before": '"Bon"', "after": '"Berlin"'}]
    command("desk", "edit", case.seq, "--value", '{"id":', *WHY).refused(1, "line 1")
    command("desk", "edit", case.seq, "--value", '{"id":"x"}', *WHY).refused(1, "field id: ")
    command("desk", "edit", case.seq, "--set", "city=Bonn", *WHY).refused(1, "JSON")
    command("desk", "edit", case.seq, *WHY).refused(2, "what to change")
    command("desk", "edit", case.seq, "--value", "@/nowhere", *WHY).refused(2, "/nowhere")
    command.ok("desk", "edit", case.seq, "--original", *WHY)
    command.ok("desk", "edit", case.seq, "--set", 'city="Bonn"', "--replay", *WHY)
    assert world.read(case).state is CaseState.REPLAYING


def test_the_editor(command: CommandLine, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = world.case(b'{"id":1,"city":"Bon"}')
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/Bon/Bonn/ "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setattr(sys, "stdin", _Typed())
    command.ok("desk", "edit", case.seq, *WHY)
    assert world.desk.cases.show(case.id).value == b'{"id":1,"city":"Bonn"}'


def test_two_persons(command: CommandLine, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_DESK__SECOND_PERSON", "true")
    case = world.case(b'{"id":1,"city":"Bon"}')
    ran = command.ok("desk", "edit", case.seq, "--set", 'city="Bonn"', *WHY)
    assert f"towpath desk agree {case.seq} 1" in ran.out
    command("desk", "agree", case.seq, 1, *WHY).refused(1, "person")
    command("desk", "replay", case.seq, *WHY).refused(1, f"case {case.seq}: edit 1 ")
    assert "applied" in command.ok("desk", "agree", case.seq, 1, "--why", "yes", "--who", "bob").out
    command("desk", "refuse", case.seq, 1, "--why", "no", "--who", "bob").refused(1, "decided")


def test_groups(command: CommandLine, world: World) -> None:
    one, two = world.case(), world.case(failure=FAILURE._replace(step="tax"))
    items = command.ok("desk", "groups", "--json").json["items"]
    assert {item["id"] for item in items} == {one.group_id, two.group_id}
    first = command.ok("desk", "groups", "--limit", 1, "--json").json
    rest = command.ok("desk", "groups", "--before", first["next"], "--json").json
    assert len(first["items"]) == len(rest["items"]) == 1
    command.ok("desk", "group", "show", one.group_id)
    assert "is archived" in command.ok("desk", "group", "archive", one.group_id, "--rate", "100/1h", *WHY).out
    assert command.ok("desk", "group", "resolve", one.group_id, "--json", *WHY).json["state"] == "resolved"
    assert "is archived" in command.ok("desk", "group", "archive", one.group_id, "--until", "12h", *WHY).out
    command("desk", "group", "archive", two.group_id, "--until", "2020-01-01", *WHY).refused(2, "past")
    command("desk", "group", "archive", two.group_id, "--rate", "many", *WHY).refused(2, "--rate")
    command("desk", "group", "archive", two.group_id, "--more", 1, "--rate", "1/1h", *WHY).refused(2, "one of them")
    assert "bob" in command.ok("desk", "group", "assign", two.group_id, "--to", "bob", *WHY).out
    assert "is ongoing" in command.ok("desk", "group", "ongoing", two.group_id, *WHY).out
    assert "2 cases" in command.ok("desk", "group", "merge", one.group_id, two.group_id, *WHY).out
    command.ok("desk", "group", "unmerge", one.group_id, *WHY)
    command.ok("desk", "group", "split", two.group_id, "--case", two.seq, "--title", "alone", *WHY)
    command("desk", "group", "split", two.group_id, *WHY).refused(2, "--case")
    command("desk", "group", "show", 999).refused(1, "group 999")
    command("desk", "groups", "--before", "x").refused(2, "cursor")


def test_jobs(command: CommandLine, world: World) -> None:
    world.cases(3)
    job = world.desk.jobs.plan(JobKind.REPLAY, CaseSelection(), who="ada", why="x", name="all of it", begin=True)
    assert "is paused" in command.ok("desk", "job", "pause", job.seq, *WHY).out
    assert "is filling" in command.ok("desk", "job", "resume", job.id, *WHY).out
    listed = command.ok("desk", "job", "list", "--json").json["items"]
    assert [(item["id"], item["name"]) for item in listed] == [(job.id, "all of it")]
    assert "all of it" in command.ok("desk", "job", "list", "--state", "filling").out
    assert "is aborted" in command.ok("desk", "job", "abort", job.seq, *WHY).out
    command("desk", "job", "resume", job.seq, *WHY).refused(1, "is aborted")
    command("desk", "job", "show", "nope").refused(1, "'nope'")
    command("desk", "job", "list", "--state", "x").refused(2, "state")
    assert command.ok("desk", "job", "items", job.seq, "--json").json == {"items": [], "next": None}


def test_export(command: CommandLine, world: World, tmp_path: Path) -> None:
    cases = world.cases(3)
    lines = [json.loads(line) for line in command.ok("desk", "export", "--flow", FLOW).lines]
    assert [line["id"] for line in lines] == [case.id for case in reversed(cases)]
    command.ok("desk", "export", cases[0].seq, "--format", "csv", "-o", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert json.loads(row["value"]) == {"id": cases[0].offset, "city": "Bonn"}
    command("desk", "export", "--format", "xml").refused(2, "json or csv")
    command("desk", "export", cases[0].seq, "--flow", FLOW).refused(2, "both")


def test_a_narrow_terminal(command: CommandLine, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.case(failure=FAILURE._replace(message="x" * 500))
    on_terminal(monkeypatch, width=60)
    assert max(len(line) for line in command.ok("desk", "list").lines) <= 60


@pytest.mark.part("matrix")
def test_no_command_of_the_desk_loads_spark(world: World) -> None:
    from tests.support.commands import run

    world.case()
    code = "import sys; from towpath.cli import main; main(sys.argv[1:]); assert 'pyspark' not in sys.modules"
    import subprocess

    for words in (["list"], ["show", "1"], ["groups"], ["replay", "1", *WHY], ["job", "list"]):
        ran = subprocess.run([sys.executable, "-c", code, "desk", *words], capture_output=True, check=False, timeout=60)
        assert ran.returncode == 0, ran.stderr
    assert run("desk", "--help").returncode == 0
