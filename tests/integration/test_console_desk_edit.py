"""Editing a case in the console: checked, compared, saved, agreed to, taken back; and two persons on one case."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from tests.support.console import HOSTILE, MakeVisitor, Visitor, has_run, said
from tests.support.desk_world import World
from tests.support.tables import rows
from tests.support.taught import NO_CITY, city_rule, teach, without_city

from towpath.desk.cases.model import Case, CaseState
from towpath.desk.edits import EditState
from towpath.runtime import Runtime

BY: dict[str, Any] = {"who": "ada", "why": "as agreed"}
BONN = b'{"id":1,"price":1.10000000000000000001,"city":"Bonn"}'


@pytest.fixture
def runtime(desk_runtime: Runtime) -> Runtime:
    return desk_runtime


@pytest.fixture
def world(runtime: Runtime) -> World:
    return World(runtime)


@pytest.fixture
def operator(world: World, make_visitor: MakeVisitor) -> Visitor:
    return make_visitor("operator")


def typed(page: str) -> str:
    """What stands in the field for the body."""
    found = re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", page, re.DOTALL)
    assert found is not None
    return unescape(found[1])


def hidden(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None
    return unescape(found[1])


def goes_out(world: World, case: Case) -> bytes | None:
    return world.desk.cases.body(case.id)


def test_the_body_is_laid_out_for_typing_and_goes_out_as_it_came(operator: Visitor, world: World) -> None:
    case = world.case(BONN)
    path = f"/desk/cases/{case.seq}/edit"
    page = operator.text(path)
    assert typed(page) == '{\n  "id": 1,\n  "price": 1.10000000000000000001,\n  "city": "Bonn"\n}'
    assert typed(operator.text(f"{path}?layout=as+it+came")) == BONN.decode()
    changed = typed(page).replace("Bonn", "Köln").replace("\n", "\r\n")  # as browsers send it
    done = operator.done(path, body=changed, seen=hidden(page, "seen"), layout="laid out", wanted="save")
    assert "edit 1 " in said(done)
    assert goes_out(world, case) == BONN.replace(b"Bonn", "Köln".encode())
    assert "<del>&#34;Bonn&#34;</del> → <ins>&#34;Köln&#34;</ins>" in done


def test_what_changes_is_shown_before_anything_is_saved(operator: Visitor, world: World) -> None:
    case = world.case(BONN)
    path = f"/desk/cases/{case.seq}/edit"
    seen = hidden(operator.text(path), "seen")
    answer = operator.post(path, body='{"id": 1, "city": "Ulm"}', seen=seen, wanted="look", why="")
    assert answer.status_code == 200
    assert "<ins>  &#34;city&#34;: &#34;Ulm&#34;</ins>" in answer.text
    assert "<del>  &#34;price&#34;: 1.10000000000000000001,</del>" in answer.text
    assert typed(answer.text) == '{"id": 1, "city": "Ulm"}'
    assert operator.post(path, body=BONN.decode(), seen=seen, wanted="look").status_code == 200
    assert rows(world.database, "desk_edit") == []


@pytest.mark.parametrize(
    "body",
    [
        '{"id": "x", "city": "Köln"}',
        '{"id": 1, "city": ',
        '{"id": 1, "id": 2}',
        "",
        '{"id":1,"price":1.10000000000000000001,"city":"Bonn"}',
    ],
)
def test_what_is_wrong_is_told_on_the_same_page_and_nothing_is_lost(operator: Visitor, world: World, body: str) -> None:
    case = world.case(BONN)
    path = f"/desk/cases/{case.seq}/edit"
    seen = hidden(operator.text(path), "seen")
    page = operator.refused(path, 422, body=body, seen=seen, wanted="save", why="the city & more")
    assert typed(page) == body
    assert 'value="the city & more"' in page
    operator.refused(path, 422, body='{"id": 2}', seen=seen, wanted="save", why=" ")
    assert rows(world.database, "desk_edit") == []
    assert goes_out(world, case) == BONN


def test_saved_and_sent_back_at_once(operator: Visitor, world: World) -> None:
    case = world.case(BONN)
    path = f"/desk/cases/{case.seq}/edit?state=open"
    seen = hidden(operator.text(path), "seen")
    done = operator.done(path, body='{"id": 1, "city": "Ulm"}', seen=seen, wanted="replay", layout="as it came")
    assert "edit 1 " in said(done)
    assert world.read(case).state is CaseState.REPLAYING
    assert [row["what"] for row in rows(world.database, "access_audit")][-2:] == ["edit", "replay"]
    assert f'href="/desk/cases/{case.seq}/older?state=open"' in done  # the list that one comes from


def test_two_persons_on_one_case(world: World, make_visitor: MakeVisitor) -> None:
    """The second is told what happened, keeps what was typed, sees it beside what is there now, and may save it."""
    case = world.case(BONN)
    ada, bea = (make_visitor("operator", name=name) for name in ("ada", "bea"))
    path = f"/desk/cases/{case.seq}/edit"
    seen = hidden(ada.text(path), "seen")
    assert hidden(bea.text(path), "seen") == seen
    ada.done(path, body='{"id": 1, "city": "Ulm"}', seen=seen, wanted="save")
    late = bea.refused(path, 409, body='{"id": 1, "city": "Köln"}', seen=seen, wanted="save", why="it is Köln")
    assert "edit 1 " in late
    assert typed(late) == '{"id": 1, "city": "Köln"}'
    assert '<del>  "city": "Ulm"</del>' in late
    assert '<ins>  "city": "Köln"</ins>' in late
    assert [row["edit"] for row in rows(world.database, "desk_edit")] == [1]
    bea.done(path, body='{"id": 1, "city": "Köln"}', seen=hidden(late, "seen"), wanted="save", layout="as it came")
    assert goes_out(world, case) == '{"id": 1, "city": "Köln"}'.encode()
    edits = world.desk.cases.show(case.id).edits
    assert [(each.edit.edit, each.edit.who) for each in edits] == [(1, "ada"), (2, "bea")]


def test_a_case_that_has_moved_on_is_not_edited(operator: Visitor, world: World) -> None:
    case = world.case(BONN)
    path = f"/desk/cases/{case.seq}/edit"
    seen = hidden(operator.text(path), "seen")
    world.desk.operate.replay([case.id], **BY)
    operator.refused(path, 422, body='{"id": 2}', seen=seen, wanted="save")
    operator.refused(path, 422, body='{"id": 2}', seen="sideways", wanted="save")
    assert rows(world.database, "desk_edit") == []


def test_the_record_itself_is_taken_back(operator: Visitor, world: World) -> None:
    case = world.case(BONN)
    world.desk.edits.edit(case.id, b'{"id": 2}', seen=world.desk.cases.show(case.id).seen, **BY)
    page = operator.text(f"/desk/cases/{case.seq}")
    assert "as edit 1 has it" in page
    operator.refused(f"/desk/cases/{case.seq}/restore", 409, seen="open 1 0")
    done = operator.done(f"/desk/cases/{case.seq}/restore", seen=hidden(page, "seen"), back=f"/desk/cases/{case.seq}")
    assert said(done)
    assert goes_out(world, case) == BONN


def test_an_edit_that_takes_two_persons(make_desk: Any, make_visitor: MakeVisitor) -> None:
    runtime = make_desk(desk={"second_person": True})
    world = World(runtime)
    case = world.case(BONN)
    ada, bea = (make_visitor("operator", runtime, name=name) for name in ("ada", "bea"))
    viewer = make_visitor("viewer", runtime)
    path = f"/desk/cases/{case.seq}"
    page = ada.text(f"{path}/edit")
    assert 'value="replay"' not in page
    seen = hidden(page, "seen")
    proposed = ada.done(f"{path}/edit", body='{"id": 2}', seen=seen, wanted="replay", layout="as it came")
    assert said(proposed)
    assert (goes_out(world, case), world.read(case).state) == (BONN, CaseState.OPEN)
    assert "Agree…" in bea.text(path)
    assert "Agree…" not in viewer.text(path)
    ada.refused(f"{path}/agree", 403, edit="1")
    viewer.refused(f"{path}/agree", 403, edit="1")
    bea.refused(f"{path}/agree", 422)
    bea.refused(f"{path}/agree", 422, edit="7")
    bea.done(f"{path}/agree", edit="1", back=path)
    assert goes_out(world, case) == b'{"id": 2}'
    bea.refused(f"{path}/refuse", 409, edit="1")
    ada.done(f"{path}/edit", body='{"id": 3}', seen=hidden(ada.text(f"{path}/edit"), "seen"), wanted="save")
    bea.done(f"{path}/refuse", edit="2", back=path)
    states = [each.edit.state for each in world.desk.cases.show(case.id).edits]
    assert states == [EditState.APPLIED, EditState.REFUSED]
    assert goes_out(world, case) == b'{"id": 2}'


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_is_typed_stays_text(operator: Visitor, world: World, text: str) -> None:
    case = world.case(BONN)
    path = f"/desk/cases/{case.seq}/edit"
    seen = hidden(operator.text(path), "seen")
    for body in (text, f'{{"id": 1, "city": {json.dumps(text)}}}'):
        page = operator.post(path, body=body, seen=seen, wanted="look", why=text).text
        assert not has_run(page)
        assert typed(page) == body
    assert not has_run(operator.post(path, body="</textarea><script>alert(1)</script>", seen=seen, wanted="look").text)


def test_what_was_learned_is_suggested_with_its_evidence(operator: Visitor, world: World, make_visitor: Any) -> None:
    rules = teach(world.runtime)
    first, second = (world.case(without_city(n), failure=NO_CITY) for n in (1, 2))
    page = operator.text(f"/desk/cases/{first.seq}")
    assert "Suggested correction" in page
    assert "<del>null</del> → <ins>&#34;München&#34;</ins>" in page
    assert "200 of 200" in unescape(page)
    rule = str(city_rule(rules).id)
    assert f'href="/desk/corrections/{rule}"' in page
    viewer = make_visitor("viewer")
    assert "Correct it" not in viewer.text(f"/desk/cases/{first.seq}")
    viewer.refused("/desk/cases/correct", 403, case=first.id, rule=rule)
    assert goes_out(world, first) == without_city(1)
    done = operator.done("/desk/cases/correct", case=first.id, rule=rule, back=f"/desk/cases/{first.seq}")
    assert said(done).startswith("1 case ")
    assert b"M\xc3\xbcnchen" in (goes_out(world, first) or b"")
    assert world.read(first).state is CaseState.OPEN
    operator.done("/desk/cases/correct", case=second.id, rule=rule, replays="yes")
    assert world.read(second).state is CaseState.REPLAYING
