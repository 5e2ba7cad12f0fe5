"""The error desk in the console: groups and cases as pages show them, and what their forms do, on both databases."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from tests.support.console import HOSTILE, MakeVisitor, Visitor, has_run, said
from tests.support.desk_world import FAILURE, FLOW, World
from tests.support.tables import rows

from towpath.db import Queries
from towpath.desk.cases.model import CaseState
from towpath.desk.groups.model import GroupState
from towpath.desk.groups.store import GroupArrivals
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.runtime import Runtime

BY: dict[str, Any] = {"who": "ada", "why": "as agreed"}
OTHER = FAILURE._replace(step="tax", exception="ValueError", message="no tax")
TABLES = ("desk_case", "desk_group", "desk_history", "desk_outbox", "desk_edit", "desk_job")


@pytest.fixture
def runtime(desk_runtime: Runtime) -> Runtime:
    return desk_runtime


@pytest.fixture
def world(runtime: Runtime) -> World:
    return World(runtime)


@pytest.fixture
def operator(world: World, make_visitor: MakeVisitor) -> Visitor:
    return make_visitor("operator")


@pytest.fixture
def viewer(world: World, make_visitor: MakeVisitor) -> Visitor:
    return make_visitor("viewer")


def listed(page: str) -> list[int]:
    """The numbers of the cases or groups in a list."""
    found = re.findall(r'<td(?: class="nowrap")?><a href="/desk/(?:cases|groups)/(\d+)[^"]*">(\d+)</a>', page)
    assert all(to == shown for to, shown in found)
    return [int(number) for number, _ in found]


def state_of(world: World, group: int) -> GroupState:
    return world.desk.groups.show(group).group.state


def test_what_happens_on_the_desk_is_news_for_open_pages(world: World) -> None:
    """What comes from a flow leaves no event: neither a new case nor one that is settled."""
    marks = Queries("towpath.web.console.layout", "live", world.database.dialect)["marks"]

    def seen() -> Any:
        with world.database.read() as tx:
            return tx.rows(marks, {})

    before = seen()
    case = world.case()
    arrived = seen()
    with world.database.transaction() as tx:
        world.parts.cases.move(tx, [case.id], CaseState.REPLAYING, who="towpath", why="x")
    assert len({str(each) for each in (before, arrived, seen())}) == 3


# Groups


def test_groups_with_counts_and_trend(viewer: Visitor, world: World) -> None:
    price = world.cases(3)[0].group_id
    tax = world.case(failure=OTHER).group_id
    now = world.database.now()
    with world.database.transaction() as tx:
        world.parts.groups.see(tx, [GroupArrivals(price, 1234, now, now)])
    page = viewer.text("/desk/groups")
    assert listed(page) == [price, tax]
    assert "1,234 " in page
    assert f'href="/desk/cases?group={price}&amp;state=open">3<' in page
    assert listed(viewer.text("/desk/groups?text=VALUE")) == [tax]
    assert listed(viewer.text("/desk/groups?code=9")) == [price, tax]
    assert listed(viewer.text("/desk/groups?code=8")) == []
    assert listed(viewer.text(f"/desk/groups?flow={FLOW}&state=new")) == [price, tax]
    assert listed(viewer.text("/desk/groups?state=resolved")) == []
    for wrong in ("state=lost", "code=x", "before=yesterday"):
        assert viewer.get(f"/desk/groups?{wrong}").status_code == 422


def test_pages_of_groups(viewer: Visitor, world: World) -> None:
    made = [world.case(failure=FAILURE._replace(step=f"step {n}")).group_id for n in range(53)]
    first = viewer.text("/desk/groups?flow=shop")
    older = re.search(r'href="(/desk/groups\?flow=shop&amp;before=[^"]+)" rel="next"', first)
    assert older is not None
    rest = viewer.text(unescape(older[1]))
    assert listed(first) + listed(rest) == made[::-1]
    assert 'rel="next"' not in rest


def test_one_group_says_why_its_cases_are_together(viewer: Visitor, world: World) -> None:
    cases = world.cases(25)
    page = viewer.text(f"/desk/groups/{cases[0].group_id}")
    assert "no price for #" in page  # the message without its particulars
    assert listed(page) == [case.seq for case in cases[:4:-1]]
    assert f"/desk/cases/{cases[24].seq}?group={cases[0].group_id}" in page
    assert "<form action" not in page.split("<main")[1]  # a viewer has no buttons
    assert viewer.get("/desk/groups/999").status_code == 404
    assert viewer.get("/desk/groups/0").status_code == 422


def test_what_an_operator_does_to_a_group(operator: Visitor, world: World) -> None:
    group = world.case().group_id
    path = f"/desk/groups/{group}"
    operator.done(f"{path}/look", back=path)
    assert state_of(world, group) is GroupState.ONGOING
    assert "bea" in said(operator.done(f"{path}/assign", assignee="bea", back=path))
    assert world.desk.groups.show(group).group.assignee == "bea"
    operator.done(f"{path}/assign", assignee=" ", back=path)
    assert world.desk.groups.show(group).group.assignee is None
    assert "asked the shop" in operator.done(f"{path}/note", why="asked the shop", back=path)
    page = operator.done(f"{path}/archive", more="10", back=path)
    assert state_of(world, group) is GroupState.ARCHIVED
    assert "10 more" in page
    operator.done(f"{path}/resolve", back=path)
    assert state_of(world, group) is GroupState.RESOLVED
    assert "10m" in operator.done(f"{path}/archive", rate="5", per="10m", back=path)
    operator.done(f"{path}/resolve", back=path)
    archived = operator.done(f"{path}/archive", until="2030-01-31T18:00", back=path)
    assert "2030-01-31 18:00:00 UTC" in archived
    history = [done.what for done in world.desk.groups.show(group).history]
    assert history == [
        *("ongoing", "assigned", "assigned", "noted", "archived", "resolved", "archived", "resolved", "archived"),
    ]
    assert {row["who"] for row in rows(world.database, "desk_history")} == {"operator"}
    assert len(rows(world.database, "access_audit")) >= 9


def test_what_is_refused_of_a_group_says_why(operator: Visitor, world: World) -> None:
    group = world.case().group_id
    before = rows(world.database, "desk_group")
    for fields in ({"more": "1", "until": "2030-01-01T00:00"}, {"rate": "3"}, {"until": "soon"}, {"more": "x"}):
        operator.refused(f"/desk/groups/{group}/archive", 422, **fields)
    operator.refused(f"/desk/groups/{group}/merge", 422)
    operator.refused(f"/desk/groups/{group}/merge", 404, into="999")
    operator.refused(f"/desk/groups/{group}/resolve", 422, why=" ")
    assert rows(world.database, "desk_group") == before


def test_groups_are_merged_and_split(operator: Visitor, world: World) -> None:
    price, tax = world.cases(3), world.case(failure=OTHER)
    page = operator.done(f"/desk/groups/{tax.group_id}/merge", into=str(price[0].group_id))
    assert str(tax.group_id) in said(page)
    assert world.desk.groups.show(price[0].group_id).group.live == 4
    assert "Split off" in page  # it has two fingerprints now
    assert f"/desk/groups/{price[0].group_id}" in operator.text(f"/desk/groups/{tax.group_id}")
    operator.done(f"/desk/groups/{tax.group_id}/unmerge", back="/desk/groups")
    split = operator.done(
        f"/desk/groups/{price[0].group_id}/split", case=[price[0].id, price[1].id], title="another <b>cause</b>"
    )
    assert "2 cases" in said(split)
    assert "another &lt;b&gt;cause&lt;/b&gt;" in split
    assert world.read(price[0]).group_id == world.read(price[1]).group_id != price[2].group_id
    known = world.desk.groups.show(price[2].group_id).fingerprints[0].fingerprint
    operator.done(f"/desk/groups/{price[2].group_id}/split", fingerprint=known)
    assert world.read(price[2]).group_id not in (price[2].group_id, world.read(price[0]).group_id)
    operator.refused(f"/desk/groups/{tax.group_id}/split", 422)


# Lists of cases


def test_cases_are_found_by_all_filters(viewer: Visitor, world: World) -> None:
    price, tax = world.cases(2), world.case(b'{"id":7,"city":"Ulm"}', failure=OTHER._replace(code=ErrorCode.NOT_VALID))
    world.desk.operate.assign([tax.id], "bea", **BY)
    world.desk.operate.abandon([price[0].id], **BY)
    every = [tax.seq, price[1].seq, price[0].seq]
    for query, found in (
        ("", every),
        ("flow=shop", every),
        ("flow=other", []),
        ("stage=main", every),
        ("step=tax", every[:1]),
        ("code=8", every[:1]),
        ("exception=KeyError", every[1:]),
        (f"group={price[0].group_id}", every[1:]),
        ("state=abandoned", every[2:]),
        ("state=on+the+desk", every[:2]),
        ("assignee=bea", every[:1]),
        ("text=no+tax", every[:1]),
        ("body=Ulm", every[:1]),
        ("since=2020-01-01T00:00", every),
        ("until=2020-01-01T00:00", []),
        (f"fingerprint={tax.fingerprint}", every[:1]),
    ):
        assert listed(viewer.text(f"/desk/cases?{query}")) == found, query
    for wrong in ("state=lost", "code=x", "group=-1", "since=x", "before=x", "flow=" + "x" * 400):
        assert viewer.get(f"/desk/cases?{wrong}").status_code == 422


def test_the_filter_goes_along_to_the_next_page_and_to_the_case(viewer: Visitor, world: World) -> None:
    made = world.cases(53)
    first = viewer.text("/desk/cases?state=open&text=price")
    assert listed(first) == [case.seq for case in made[:2:-1]]
    older = re.search(r'href="(/desk/cases\?[^"]*before=\d+)" rel="next"', first)
    assert older is not None
    assert "state=open&amp;text=price" in older[1]
    assert listed(viewer.text(unescape(older[1]))) == [case.seq for case in made[2::-1]]
    assert f'href="/desk/cases/{made[-1].seq}?state=open&amp;text=price"' in first
    case = viewer.text(f"/desk/cases/{made[-1].seq}?state=open&text=price")
    assert 'href="/desk/cases?state=open&amp;text=price"' in case


def test_all_that_match_is_another_button_than_those_selected(operator: Visitor, world: World) -> None:
    cases = world.cases(53)
    page = operator.text("/desk/cases?state=open")
    assert "Replay all 53 that match" in page
    assert "Abandon all 53 that match" in page
    assert "data-ticked" in page
    assert page.count('name="case"') == 50
    assert "Replay all that match" in operator.text("/desk/cases?text=price")  # not counted for a page
    few = operator.text(f"/desk/cases?text=price&group={cases[0].group_id}&code=9&since=2020-01-01T00:00&step=price")
    assert "Replay all that match" in few
    tax = world.cases(2, failure=OTHER)
    assert "Replay all 2 that match" in operator.text("/desk/cases?text=tax")  # they are all there
    world.desk.operate.abandon([tax[0].id], **BY)
    assert "Replay all 1 that match" in operator.text("/desk/cases?text=tax")  # the other is settled
    world.desk.operate.replay([tax[1].id], **BY)
    assert "Replay all" not in operator.text("/desk/cases?text=tax")
    assert "Replay all 53 that match" in operator.text("/desk/cases")


def test_a_viewer_has_no_buttons(viewer: Visitor, world: World) -> None:
    case = world.case()
    for path in ("/desk/cases", f"/desk/cases/{case.seq}", f"/desk/groups/{case.group_id}"):
        page = viewer.text(path).split("<main")[1]
        assert 'method="post"' not in page.replace('action="/views" method="post"', "")
        assert 'name="case"' not in page
    assert viewer.get(f"/desk/cases/{case.seq}/edit").status_code == 403
    assert viewer.get("/desk/bulk?kind=replay").status_code == 403


def test_a_viewer_changes_nothing(viewer: Visitor, world: World) -> None:
    case = world.case()
    before = {table: rows(world.database, table) for table in TABLES}
    for what in ("replay", "resend", "recall", "abandon", "open", "assign", "correct"):
        viewer.refused(f"/desk/cases/{what}", 403, case=case.id)
    for what in ("note", "edit", "agree", "refuse", "restore"):
        viewer.refused(f"/desk/cases/{case.seq}/{what}", 403, body="{}", seen="open 1 0", edit="1")
    for what in ("look", "resolve", "archive", "assign", "note", "merge", "unmerge", "split", "rehearse"):
        viewer.refused(f"/desk/groups/{case.group_id}/{what}", 403, into="1")
    viewer.refused("/desk/bulk", 403, kind="abandon")
    assert {table: rows(world.database, table) for table in TABLES} == before


def test_a_form_of_another_site_changes_nothing(operator: Visitor, world: World) -> None:
    case = world.case()
    answer = operator.send("/desk/cases/abandon", {"case": case.id, "why": "x", "token": "0" * 64})
    assert answer.status_code == 403
    assert world.read(case).state is CaseState.OPEN


# What is done to cases


def test_what_is_done_to_those_that_are_ticked(operator: Visitor, world: World) -> None:
    cases = world.cases(4)
    back = "/desk/cases?state=open"
    ids = [case.id for case in cases]
    told = said(operator.done("/desk/cases/assign", case=ids[:2], assignee="bea", back=back))
    assert told.startswith("2 cases ")
    assert told.endswith("bea")
    assert {world.read(case).assignee for case in cases[:2]} == {"bea"}
    page = operator.done("/desk/cases/replay", case=ids[:2], delay="10m", back=back)
    assert said(page).startswith("2 cases ")
    assert listed(page) == [cases[3].seq, cases[2].seq]
    assert {world.read(case).state for case in cases[:2]} == {CaseState.WAITING}
    assert said(operator.done("/desk/cases/recall", case=ids[0], back=back)).startswith("1 case ")
    assert world.read(cases[0]).state is CaseState.OPEN
    mixed = said(operator.done("/desk/cases/replay", case=[ids[0], ids[2], "019" + ids[1][3:]], back=back))
    assert mixed.startswith("2 cases ")
    assert "case 019" in mixed
    assert world.read(cases[2]).state is CaseState.REPLAYING
    assert said(operator.done("/desk/cases/abandon", case=ids[3], back=back)).startswith("1 case ")
    assert world.read(cases[3]).state is CaseState.ABANDONED
    assert {done.who for case in cases for done in world.desk.cases.show(case.id).history} == {"operator"}


def test_refusals_of_several_are_told_for_each(operator: Visitor, world: World) -> None:
    cases = world.cases(6)
    ids = [case.id for case in cases]
    world.desk.operate.abandon(ids, **BY)
    page = operator.done("/desk/cases/replay", case=ids, back="/desk/cases")
    assert 'class="said wrong"' in page
    assert said(page).startswith("0 cases ")
    assert f"case {cases[0].seq}: it is abandoned" in said(page)
    assert "3 more" in said(page)
    assert "abandoned" in operator.refused("/desk/cases/replay", 409, case=ids[0])
    operator.refused("/desk/cases/replay", 422)
    operator.refused("/desk/cases/replay", 422, case=ids[0], delay="soon")
    operator.refused("/desk/cases/replay", 404, case="zzzz")
    operator.refused("/desk/cases/abandon", 422, case=world.case().id, why="")


def test_what_is_ignored_is_opened_and_a_record_goes_to_its_source_again(operator: Visitor, world: World) -> None:
    ignored = world.case(state=CaseState.IGNORED)
    operator.done("/desk/cases/open", case=ignored.id)
    assert world.read(ignored).state is CaseState.OPEN
    operator.done("/desk/cases/resend", case=ignored.id)
    assert world.read(ignored).state is CaseState.RESENT or rows(world.database, "desk_outbox")


# One case


def test_one_case_with_all_that_is_known(viewer: Visitor, world: World) -> None:
    case = world.case(
        b'{"id":1,"price":1.10000000000000000001,"city":"Bonn"}',
        headers=(("towpath.stage", b"main"), ("type", b"order")),
    )
    world.desk.operate.note(case.id, "asked the shop", who="ada")
    page = viewer.text(f"/desk/cases/{case.seq}")
    assert "1.10000000000000000001" in page
    assert f'href="/topics/orders/records?partition=0&amp;offset={case.offset}"' in page
    assert f'href="/topics/shop.errors/records?partition=0&amp;offset={case.error_offset}"' in page
    assert "KeyError: no price for 17" in unescape(page)
    assert "asked the shop" in page
    assert '<dt class="mono">type</dt><dd class="mono">order</dd>' in page
    for name in (case.id, case.id[:8], str(case.seq)):
        assert viewer.get(f"/desk/cases/{name}").status_code == 200
    assert viewer.get("/desk/cases/999").status_code == 404
    assert viewer.get("/desk/cases/zz").status_code == 404


def test_a_body_that_is_not_text_is_shown_as_numbers_and_can_be_had(viewer: Visitor, world: World) -> None:
    case = world.case(b"\xff\x00<script>alert(1)</script>")
    page = viewer.text(f"/desk/cases/{case.seq}")
    assert "00000000  ff 00 3c 73 63 72 69 70 74 3e" in page
    assert not has_run(page)
    answer = viewer.get(f"/desk/cases/{case.seq}/body")
    assert answer.content == b"\xff\x00<script>alert(1)</script>"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    world.desk.operate.abandon([case.id], **BY)
    assert viewer.get(f"/desk/cases/{case.seq}/body").status_code == 422
    viewer.text(f"/desk/cases/{case.seq}")


def test_a_large_body_is_cut_on_the_page_only(viewer: Visitor, world: World) -> None:
    value = json.dumps({"id": 1, "note": "x" * 100_000 + "end"}).encode()
    case = world.case(value)
    page = viewer.text(f"/desk/cases/{case.seq}")
    assert "xend" not in page
    assert viewer.get(f"/desk/cases/{case.seq}/body").content == value


def test_only_what_the_state_allows_has_a_button(operator: Visitor, world: World) -> None:
    case, gap = world.case(), world.case(kind="gap")
    path = f"/desk/cases/{case.seq}"

    def buttons(page: str) -> set[str]:
        return set(re.findall(r'<summary aria-label="([^"…]+)…"', page)) & {
            *("Replay", "Recall", "Open", "Assign", "Note", "Resend", "Abandon", "Acknowledge"),
        }

    assert buttons(operator.text(path)) == {"Replay", "Assign", "Note", "Resend", "Abandon"}
    assert f'href="{path}/edit"' in operator.text(path)
    world.desk.operate.replay([case.id], delay_s=600, **BY)
    assert buttons(operator.text(path)) == {"Replay", "Recall", "Assign", "Note", "Resend", "Abandon"}
    assert "/edit" not in operator.text(path)
    world.desk.operate.replay([case.id], **BY)
    assert buttons(operator.text(path)) == {"Recall", "Assign", "Note"}
    assert buttons(operator.text(f"/desk/cases/{gap.seq}")) == {"Assign", "Note", "Acknowledge"}
    world.desk.operate.abandon([gap.id], **BY)
    assert buttons(operator.text(f"/desk/cases/{gap.seq}")) == {"Note"}


def test_what_waits_behind_a_record_of_its_key(viewer: Visitor, world: World) -> None:
    first = world.case()
    parked = world.case(state=CaseState.PARKED, behind=first.id)
    assert f'href="/desk/cases/{first.id}"' in viewer.text(f"/desk/cases/{parked.seq}")
    assert f'href="/desk/cases/{parked.seq}">case {parked.seq}</a>' in viewer.text(f"/desk/cases/{first.seq}")


def test_the_next_and_the_one_before(viewer: Visitor, world: World) -> None:
    first, odd, last = world.case(), world.case(failure=OTHER), world.case()

    def goes(path: str) -> str:
        answer = viewer.get(path)
        assert answer.status_code == 303
        return str(answer.headers["location"])

    assert goes(f"/desk/cases/{last.seq}/older") == f"/desk/cases/{first.seq}"  # of the same group
    assert goes(f"/desk/cases/{last.seq}/older?state=open") == f"/desk/cases/{odd.seq}?state=open"
    assert goes(f"/desk/cases/{odd.seq}/newer?flow=shop") == f"/desk/cases/{last.seq}?flow=shop"
    assert goes(f"/desk/cases/{first.seq}/newer?text=no+tax") == f"/desk/cases/{odd.seq}?text=no+tax"
    assert goes(f"/desk/cases/{last.seq}/newer") == f"/desk/cases/{last.seq}"
    assert said(viewer.text(f"/desk/cases/{last.seq}"))


@pytest.mark.parametrize("form", ["json", "csv"])
def test_an_export_has_what_matches(viewer: Visitor, world: World, form: str) -> None:
    world.cases(3)
    world.case(failure=OTHER)
    answer = viewer.get(f"/desk/export?form={form}&text=price")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert len(answer.text.splitlines()) == 3 + (form == "csv")
    assert viewer.get("/desk/export?form=xml").status_code == 422


# Hostile data, and who may not see all


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_is_in_an_error_stays_text(operator: Visitor, world: World, text: str) -> None:
    body = json.dumps({"id": 1, text: text}).encode()
    failure = RecordFailure(
        ErrorCode.TRANSFORM_FAILED, text, text, f"said {text}", f'  File "a.py", line 1, in f\n{text}'
    )
    case = world.case(body, failure=failure, headers=(("towpath.stage", b"main"), (text, text.encode())))
    world.desk.operate.note(case.id, text, who=text)
    world.desk.operate.assign([case.id], text, who=text, why=text)
    world.desk.groups.note(case.group_id, text, who=text)
    world.desk.groups.assign(case.group_id, text, who=text, why=text)
    world.desk.edits.edit(case.id, b'{"id": 2}', seen=world.desk.cases.show(case.id).seen, who=text, why=text)
    paths = ("/desk/groups", f"/desk/groups/{case.group_id}", "/desk/cases", f"/desk/cases/{case.seq}")
    for path in (*paths, f"/desk/cases/{case.seq}/edit", f"/desk/bulk?kind=replay&group={case.group_id}"):
        page = operator.text(path)
        assert not has_run(page)
        assert "{" not in text or text in page  # and is not worked out


def test_who_may_not_see_a_field(make_desk: Any, make_visitor: MakeVisitor) -> None:
    runtime = make_desk(desk={"masked": {FLOW: ["email"]}, "sees_masked": "admin"})
    world = World(runtime)
    mail = RecordFailure(ErrorCode.TRANSFORM_FAILED, "mail", "ValueError", "jane@example.org is not an address")
    case = world.case(b'{"id":1,"email":"jane@example.org"}', failure=mail)
    operator, admin = (make_visitor(role, runtime) for role in ("operator", "admin"))
    paths = [
        *("/desk/groups", f"/desk/groups/{case.group_id}", "/desk/cases", f"/desk/cases/{case.seq}", "/desk/export"),
        *(f"/desk/cases/{case.seq}/edit", f"/desk/cases/{case.seq}/body", "/desk/bulk?kind=abandon"),
    ]
    for path in paths:
        assert "jane@" not in operator.text(path), path
    assert "jane@example.org" in admin.text(f"/desk/cases/{case.seq}")
    assert listed(operator.text("/desk/cases?text=jane")) == []
    assert listed(operator.text("/desk/groups?text=address")) == []
    assert listed(operator.text("/desk/cases?body=id")) == [case.seq]
    assert "that match…" not in operator.text("/desk/cases?body=id")  # what a search finds would tell
    assert "/edit" not in operator.text(f"/desk/cases/{case.seq}").split("<main")[1]
    operator.refused(f"/desk/cases/{case.seq}/edit", 403, body="{}", seen="open 1 0", wanted="save")
    assert operator.get("/desk/bulk?kind=abandon&text=jane").status_code == 403
    assert rows(world.database, "desk_edit") == []
