"""Policies, learned corrections and rehearsals in the console: tried before they count, switched, taken back."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from tests.support.console import HOSTILE, MakeVisitor, Visitor, has_run, said
from tests.support.desk_world import FLOW, World
from tests.support.tables import rows
from tests.support.taught import NO_CITY, city_rule, teach, without_city

from towpath.desk.cases.model import Case, CaseState
from towpath.desk.corrections.model import CorrectionRule as LearnedRule
from towpath.desk.corrections.model import RuleState
from towpath.desk.policies.store import PolicyOrigin, Version
from towpath.desk.rehearsal_queue import INBOX
from towpath.policy import Rule, exponential, ignore, repeat, repeat_after
from towpath.runtime import Runtime

BY: dict[str, Any] = {"who": "ada", "why": "as agreed"}
IGNORE = {"policy": "ignore", "approved_by": "Ann Lee", "until": "2099-01-31", "step": "price"}


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


def operators(world: World) -> Version | None:
    found = world.runtime.policies.current(FLOW)
    return next((each for each in found if each.origin is PolicyOrigin.OPERATOR), None)


# Policies


def test_rules_of_code_and_of_operators(viewer: Visitor, world: World) -> None:
    viewer.text("/desk/policies")
    policies = world.runtime.policies
    policies.declare(FLOW, None, [Rule.of(repeat_after(exponential("1m", times=3)), code=9)])
    policies.set(FLOW, [Rule.of(ignore(approved_by="Ann Lee", until="2099-01-31"), where="value.id = 1")], **BY)
    for path in ("/desk/policies", f"/desk/policies/{FLOW}"):
        page = unescape(viewer.text(path))
        assert page.index("operator/1/0") < page.index("code/1/0")  # the order in which they are asked
        assert "1m, 2m, 4m" in page
        assert "where <code>value.id = 1</code>" in page
        assert "Ann Lee" in page
        assert "Withdraw" not in page
    assert "as agreed" in viewer.text(f"/desk/policies/{FLOW}")
    assert "Add a rule" not in viewer.text(f"/desk/policies/{FLOW}")
    assert viewer.get(f"/desk/policies/{FLOW}/add").status_code == 403
    assert viewer.get("/desk/policies/nothing").status_code == 404


def test_what_the_rules_would_have_caught(viewer: Visitor, world: World) -> None:
    world.cases(3)
    world.runtime.policies.set(FLOW, [Rule.of(repeat(2), step="price")], **BY)
    assert "3 repeat" not in viewer.text(f"/desk/policies/{FLOW}")
    page = viewer.text(f"/desk/policies/{FLOW}?tried=yes")
    assert "3 repeat" in page


def test_a_rule_is_tried_and_then_added_before_the_others(operator: Visitor, world: World) -> None:
    world.cases(3)
    world.runtime.policies.set(FLOW, [Rule.of(repeat(2))], **BY)
    path = f"/desk/policies/{FLOW}/add"
    assert 'name="after" value="1"' in operator.text(path)
    tried = operator.post(path, wanted="try", after="1", why="", **IGNORE)
    assert tried.status_code == 200
    assert "3 of 3" in tried.text
    assert 'value="Ann Lee"' in tried.text  # what was typed is still there
    assert len(rows(world.database, "desk_policy")) == 1
    done = operator.done(path, wanted="save", after="1", why="known", **IGNORE)
    assert "version 2 " in said(done)
    now = operators(world)
    assert now is not None
    assert (now.who, now.why) == ("operator", "known")
    assert [rule["policy"] for rule in now.stored["policies"]] == ["ignore", "repeat"]


def test_what_is_wrong_with_a_rule_is_told_on_the_same_page(operator: Visitor, world: World) -> None:
    path = f"/desk/policies/{FLOW}/add"
    for fields in (
        {"policy": "ignore", "step": "x"},
        {"policy": "repeat", "times": "0", "step": "x"},
        {"policy": "repeat", "times": "x", "step": "x"},
        {"policy": "isolate", "where": "value =", "step": "x"},
        {**IGNORE, "until": "2020-01-31", "step": "x"},
        {"policy": "isolate", "step": "x", "why": ""},
    ):
        page = operator.refused(path, 422, wanted="save", after="0", **fields)
        assert 'name="step" type="text" value="x"' in page
    assert rows(world.database, "desk_policy") == []


def test_two_persons_at_the_rules_of_a_flow(operator: Visitor, world: World) -> None:
    path = f"/desk/policies/{FLOW}/add"
    world.runtime.policies.set(FLOW, [Rule.of(repeat(2))], **BY)
    page = operator.refused(path, 409, wanted="save", after="0", policy="isolate", step="tax")
    assert "version 1" in page
    assert 'name="after" value="1"' in page  # saved again, it goes before the new ones
    assert len(rows(world.database, "desk_policy")) == 1


def test_a_rule_is_withdrawn_and_what_it_ignored_is_opened(operator: Visitor, viewer: Visitor, world: World) -> None:
    version = world.runtime.policies.set(FLOW, [Rule.of(ignore(approved_by="Ann", until="2099-01-31"))], **BY)
    case = world.case(state=CaseState.IGNORED, rule=f"{FLOW}/operator/1/0")
    path = f"/desk/policies/{FLOW}"
    page = operator.text(f"{path}?withdraw=0")
    assert 'name="opens"' in page
    assert 'name="opens"' not in viewer.text(f"{path}?withdraw=0")
    assert 'name="opens"' not in operator.text(f"{path}?withdraw=7")
    viewer.refused(f"{path}/withdraw", 403, number="0", after="1")
    operator.refused(f"{path}/withdraw", 409, number="0", after="0")
    assert operators(world) == version
    done = operator.done(f"{path}/withdraw", number="0", after="1", opens="yes", back=path)
    assert said(done)
    assert world.read(case).state is CaseState.OPEN
    now = operators(world)
    assert now is not None
    assert now.stored["policies"] == []


def test_who_may_not_see_a_field_does_not_find_it_out_by_a_rule(make_desk: Any, make_visitor: MakeVisitor) -> None:
    runtime = make_desk(desk={"masked": {FLOW: ["city"]}, "sees_masked": "admin"})
    World(runtime).case()
    operator = make_visitor("operator", runtime)
    asked = {"policy": "isolate", "where": "value.city = 'Bonn'"}
    operator.refused(f"/desk/policies/{FLOW}/add", 422, wanted="try", after="0", **asked)


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_rules_say_stays_text(operator: Visitor, world: World, text: str) -> None:
    rules = [Rule.of(ignore(approved_by=text, until="2099-01-31"), step=text, exception=text)]
    world.runtime.policies.set(FLOW, rules, who=text, why=text)
    for path in ("/desk/policies", f"/desk/policies/{FLOW}?tried=yes", f"/desk/policies/{FLOW}?withdraw=0"):
        page = operator.text(path)
        assert not has_run(page)
        assert "{" not in text or text in page
    typed = {"policy": text, "step": text, "where": text, "approved_by": text, "why": text}
    answer = operator.post(f"/desk/policies/{FLOW}/add", wanted="try", **typed)
    assert answer.status_code == 422
    assert not has_run(answer.text)


# Corrections


@pytest.fixture
def rule(world: World) -> LearnedRule:
    return city_rule(teach(world.runtime))


def test_rules_with_their_evidence(viewer: Visitor, rule: LearnedRule) -> None:
    page = viewer.text("/desk/corrections")
    assert f'href="/desk/corrections/{rule.id}">postcode → city</a>' in page
    assert "suggested" in page
    assert 'href="/desk/corrections/' not in viewer.text("/desk/corrections?state=on")
    assert 'href="/desk/corrections/' not in viewer.text("/desk/corrections?flow=other")
    assert viewer.get("/desk/corrections?state=lost").status_code == 422
    one = unescape(viewer.text(f"/desk/corrections/{rule.id}"))
    assert '["80331"]' in one
    assert '"München"' in one
    assert '<td class="num">200</td>' in one
    assert "Turn on" not in one
    assert viewer.get("/desk/corrections/999").status_code == 404
    assert viewer.get(f"/desk/corrections/{rule.id}?before=x").status_code == 422


def test_a_rule_is_switched(operator: Visitor, viewer: Visitor, world: World, rule: LearnedRule) -> None:
    path = f"/desk/corrections/{rule.id}"
    for what in ("on", "off", "revert"):
        viewer.refused(f"{path}/{what}", 403)
    assert world.runtime.corrections.rule(rule.id).state is RuleState.SUGGESTED
    operator.done(f"{path}/on", support="7", confidence="0.95", back=path)
    now = world.runtime.corrections.rule(rule.id)
    assert (now.state, now.support, now.confidence) == (RuleState.ON, 7, 0.95)
    operator.refused(f"{path}/on", 409)
    operator.done(f"{path}/off", back=path)
    assert world.runtime.corrections.rule(rule.id).state is RuleState.OFF
    operator.refused(f"{path}/on", 422, support="0")
    operator.refused(f"{path}/on", 422, confidence="x")


def test_a_rule_is_reverted_with_the_list_of_what_it_touched(
    operator: Visitor, world: World, rule: LearnedRule
) -> None:
    path = f"/desk/corrections/{rule.id}"
    cases = [world.case(without_city(number), failure=NO_CITY) for number in range(3)]
    operator.done(f"{path}/on", back=path)
    operator.done("/desk/cases/correct", case=[case.id for case in cases], rule=str(rule.id))
    page = unescape(operator.text(path))
    assert page.count("<del>null</del>") == 3
    assert page.count('<ins>"München"</ins>') == 3
    assert cases[0].input in page
    done = operator.done(f"{path}/revert", back=path)
    assert "3 fields" in said(done)
    assert unescape(done).count('<ins>"München"</ins>') == 3
    assert [world.desk.cases.body(case.id) for case in cases] == [without_city(number) for number in range(3)]


# Rehearsals


def finish(world: World, case: Case, **counts: int) -> None:
    """What a desk that runs has found out."""
    inbox = world.runtime.queue.inbox(INBOX)
    [message] = inbox.claim(1)
    example = {"case": case.id, "number": case.seq, "input": case.input, "said": "tax: <b>no tax</b> for jane@x.org"}
    found = {"group": case.group_id, "counts": counts, "examples": {"otherwise": [example]}, "notes": ["no sink"]}
    inbox.finish(message, {**found, "tried_with": "shop.py:flow", "version": "7", "replayed": None})


def test_a_rehearsal_is_asked_for_and_its_result_is_shown(operator: Visitor, viewer: Visitor, world: World) -> None:
    case = world.case()
    path = f"/desk/groups/{case.group_id}"
    viewer.refused(f"{path}/rehearse", 403)
    assert world.runtime.rehearsals.page(limit=10) == []
    operator.done(f"{path}/rehearse", why="after the fix", most="50")
    [asked] = world.runtime.rehearsals.page(limit=10)
    assert (asked.asked.who, asked.asked.why, asked.asked.most) == ("operator", "after the fix", 50)
    assert not asked.asked.replays
    finish(world, case, loads=41, same=5, otherwise=1)
    for where in (path, f"/desk/rehearsals/{asked.id}"):
        shown = operator.text(where)
        assert re.search(r'<td class="num">41</td>', shown)
        assert re.search(r'<td class="num">5</td>', shown)
        assert f'href="/desk/cases/{case.seq}">case {case.seq}</a>' in shown
        assert "tax: &lt;b&gt;no tax&lt;/b&gt;" in shown
        assert "Replay those that pass" in shown
        assert "Replay those that pass" not in viewer.text(where)
    assert f'href="/desk/rehearsals/{asked.id}"' in viewer.text("/desk/rehearsals")
    operator.done(f"{path}/rehearse", replays="yes", most="50")
    again = world.runtime.rehearsals.page(limit=10)[0]
    assert again.asked.replays
    assert viewer.get("/desk/rehearsals/019").status_code == 404


def test_a_rehearsal_is_aborted(operator: Visitor, viewer: Visitor, world: World) -> None:
    group = world.case().group_id
    operator.done(f"/desk/groups/{group}/rehearse")
    [asked] = world.runtime.rehearsals.page(limit=10)
    viewer.refused(f"/desk/rehearsals/{asked.id}/abort", 403)
    operator.done(f"/desk/rehearsals/{asked.id}/abort", why="not now", back="/desk/rehearsals")
    assert world.runtime.rehearsals.show(asked.id).state == "aborted"
    assert "not now" in operator.text(f"/desk/groups/{group}")
    operator.refused(f"/desk/rehearsals/{asked.id}/abort", 409)


def test_what_cannot_be_rehearsed_says_why(operator: Visitor, world: World) -> None:
    group = world.case().group_id
    assert "'next'" in operator.refused(f"/desk/groups/{group}/rehearse", 422, code="next")
    operator.refused(f"/desk/groups/{group}/rehearse", 422, most="1000000")
    operator.refused(f"/desk/groups/{group}/rehearse", 422, why="")
    operator.refused("/desk/groups/999/rehearse", 404)
    operator.done(f"/desk/groups/{group}/rehearse")
    inbox = world.runtime.queue.inbox(INBOX)
    [message] = inbox.claim(1)
    inbox.finish(message, {"refused": "no file in this directory has the flow shop"})
    assert "no file in this directory has the flow shop" in operator.text(f"/desk/groups/{group}")


def test_examples_are_masked(make_desk: Any, make_visitor: MakeVisitor) -> None:
    runtime = make_desk(desk={"masked": {FLOW: ["email"]}, "sees_masked": "admin"})
    world = World(runtime)
    case = world.case(b'{"id":1,"email":"jane@x.org"}')
    operator, admin = (make_visitor(role, runtime) for role in ("operator", "admin"))
    operator.done(f"/desk/groups/{case.group_id}/rehearse")
    finish(world, case, otherwise=1)
    assert "jane@x.org" in admin.text(f"/desk/groups/{case.group_id}")
    assert "jane@x.org" not in operator.text(f"/desk/groups/{case.group_id}")
