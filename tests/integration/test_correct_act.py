"""Corrections that a person asks for: of cases that are named, and as a bulk job, on both databases."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.desk import table
from tests.support.desk_world import FLOW, HEADERS, World
from tests.support.taught import CITIES, NO_CITY, city_rule, teach, without_city

from towpath.desk.actions.actions import JobKind
from towpath.desk.actions.job_store import JobState
from towpath.desk.cases.model import Case, CaseSelection, CaseState
from towpath.desk.corrections.model import CorrectionRule
from towpath.desk.masks import Masks
from towpath.errors import BadValue, FieldsMasked, UnknownRule
from towpath.flow.records.reentry import CORRECTED
from towpath.runtime import Runtime

BY: dict[str, Any] = {"who": "ada", "why": "the postcode says so"}


@pytest.fixture
def world(desk_runtime: Runtime) -> World:
    return World(desk_runtime)


@pytest.fixture
def rule(world: World) -> CorrectionRule:
    return city_rule(teach(world.runtime))


def bad(world: World, count: int, **said: Any) -> list[Case]:
    codes = list(CITIES)
    values = [without_city(at, codes[at % len(codes)]) for at in range(count)]
    return world.cases(count, failure=NO_CITY, values=values, **said)


def city_of(world: World, case: Case) -> Any:
    return json.loads(world.desk.cases.body(case.id) or b"{}")["city"]


def test_a_rule_that_is_on_corrects_and_sends_back(world: World, rule: CorrectionRule) -> None:
    world.runtime.corrections.turn_on(rule.id, **BY)
    cases = bad(world, 4)
    done = world.desk.operate.correct([case.id for case in cases], **BY)
    assert done.refused == {}
    assert [city_of(world, case) for case in cases] == list(CITIES.values())
    assert {world.read(case).state for case in cases} == {CaseState.REPLAYING}
    assert len(table(world.database, "desk_outbox")) == 4
    touched = world.runtime.corrections.touched(rule.id)
    assert {each.case_id for each in touched} == {case.id for case in cases}
    view = world.desk.cases.show(cases[0].id)
    assert (view.edits[0].edit.who, view.edits[0].edit.state) == (rule.name, "applied")
    assert dict(view.headers)[CORRECTED] == f"{rule.name} city".encode()
    assert [(each.what, each.who) for each in view.history] == [("corrected", "ada"), ("replaying", "ada")]


def test_kept_on_the_desk_it_can_be_looked_at_and_taken_back(world: World, rule: CorrectionRule) -> None:
    world.runtime.corrections.turn_on(rule.id, **BY)
    [case] = bad(world, 1)
    world.desk.operate.correct([case.id], replays=False, **BY)
    now = world.read(case)
    assert (now.state, now.edit, city_of(world, case)) == (CaseState.OPEN, 1, "Berlin")
    with pytest.raises(BadValue, match="edit 1"):
        world.desk.operate.correct([case.id], **BY)
    assert world.runtime.corrections.revert(rule.id, **BY).taken_back == (case.id,)
    assert city_of(world, case) is None


def test_a_rule_that_is_not_on_counts_when_a_person_names_it(world: World, rule: CorrectionRule) -> None:
    first, second = bad(world, 2)
    with pytest.raises(BadValue, match="turned on"):
        world.desk.operate.correct([first.id], **BY)
    assert world.read(first).edit == 0
    world.desk.operate.correct([first.id, second.id], rule=rule.id, **BY)
    assert [city_of(world, case) for case in (first, second)] == ["Berlin", "München"]


def test_what_is_refused_and_why(world: World, rule: CorrectionRule) -> None:
    world.runtime.corrections.turn_on(rule.id, **BY)
    [good] = bad(world, 1)
    headers = (*HEADERS, (CORRECTED, b"rule:1 city"))
    marked = world.case(without_city(1), failure=NO_CITY, headers=headers)
    unknown = world.case(without_city(2, "99999"), failure=NO_CITY)
    text = world.case(b"no JSON", failure=NO_CITY)
    done = world.desk.operate.correct([case.id for case in (good, marked, unknown, text)], **BY)
    assert [case.id for case in done.done] == [good.id]
    assert done.refused.keys() == {marked.id, unknown.id, text.id}
    other = next(each for each in world.runtime.corrections.rules(FLOW) if each.id != rule.id)
    late = bad(world, 1)[0]
    with pytest.raises(BadValue, match="nothing"):
        world.desk.operate.correct([late.id], rule=other.id, **BY)
    with pytest.raises(UnknownRule):
        world.desk.operate.correct([late.id], rule=9999, **BY)
    world.runtime.corrections.turn_off(rule.id, **BY)
    with pytest.raises(BadValue, match="nothing"):
        world.desk.operate.correct([late.id], rule=rule.id, **BY)


def test_a_case_that_changes_meanwhile_is_left_alone(
    world: World, rule: CorrectionRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found out before the transaction, it must not overwrite what a person has put there since."""
    from towpath.desk.corrections.act import CorrectAction

    world.runtime.corrections.turn_on(rule.id, **BY)
    first, second = bad(world, 2)
    ready = CorrectAction.get_ready

    def edited_meanwhile(act: CorrectAction, cases: Any) -> None:
        ready(act, cases)
        seen = world.desk.cases.show(first.id).seen
        world.desk.edits.edit(first.id, b'{"id": 0, "city": "Ulm"}', seen=seen, who="bea", why="I know it")

    monkeypatch.setattr(CorrectAction, "get_ready", edited_meanwhile)
    done = world.desk.operate.correct([first.id, second.id], **BY)
    assert done.refused.keys() == {first.id}
    assert (city_of(world, first), city_of(world, second)) == ("Ulm", "München")
    assert {each.case_id for each in world.runtime.corrections.touched(rule.id)} == {second.id}


def test_a_bulk_job_corrects_what_it_can_and_says_why_not(world: World, rule: CorrectionRule) -> None:
    world.runtime.corrections.turn_on(rule.id, **BY)
    cases = bad(world, 1_200)
    unknown = world.case(without_city(1, "99999"), failure=NO_CITY)
    with world.hosted():
        job = world.ended(world.desk.jobs.plan(JobKind.CORRECT, CaseSelection(flow=FLOW), begin=True, **BY))
    assert (job.state, job.done, job.refused) == (JobState.FINISHED, 1_200, 1)
    [item] = world.desk.jobs.show(job.id).refused
    assert item.case_id == unknown.id
    assert world.states() == {"open": 1, "replaying": 1_200}
    assert len(world.runtime.corrections.touched(rule.id, 2_000)) == 1_200
    assert {city_of(world, case) for case in cases[:8]} == set(CITIES.values())


def test_pages_of_what_a_rule_has_touched_lose_nothing(world: World, rule: CorrectionRule) -> None:
    """A transaction touches hundreds at the same moment."""
    world.runtime.corrections.turn_on(rule.id, **BY)
    cases = bad(world, 25)
    world.desk.operate.correct([case.id for case in cases], **BY)
    seen, mark = [], None
    while page := world.runtime.corrections.touched(rule.id, 10, mark):
        seen += [each.case_id for each in page]
        mark = page[-1].mark
    assert sorted(seen) == sorted(case.id for case in cases)


def test_who_does_not_see_all_fields_cannot_answer_for_corrections(world: World, rule: CorrectionRule) -> None:
    masks = Masks({FLOW: ["city"]})
    [case] = bad(world, 1)
    with pytest.raises(FieldsMasked):
        world.desk.operate.correct([case.id], rule=rule.id, masks=masks, **BY)
    with pytest.raises(FieldsMasked):
        world.desk.jobs.plan(JobKind.CORRECT, CaseSelection(flow=FLOW), masks=masks, **BY)


def test_with_two_persons_only_rules_that_are_on(make_desk: Callable[..., Runtime]) -> None:
    world = World(make_desk(desk={"second_person": True}))
    rule = city_rule(teach(world.runtime))
    [case] = bad(world, 1)
    with pytest.raises(BadValue, match="two"):
        world.desk.operate.correct([case.id], rule=rule.id, **BY)
    world.runtime.corrections.turn_on(rule.id, **BY)
    assert world.desk.operate.correct([case.id], rule=rule.id, **BY).refused == {}
