"""Groups: what persons think of a cause, merged, split, and why cases are together."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.desk_world import FAILURE, FLOW, World
from tests.support.sweep import sweep
from tests.support.tables import rows

from towpath.core.events import EventKind
from towpath.desk.actions.service import MOST_AT_ONCE
from towpath.desk.cases.model import CaseSelection, CaseState
from towpath.desk.groups.model import Archive, GroupState
from towpath.desk.groups.store import HOUR_US, GroupArrivals
from towpath.desk.masks import Masks
from towpath.errors import BadValue, IllegalGroupMove, UnknownGroup
from towpath.runtime import Runtime

BY: dict[str, Any] = {"who": "ada", "why": "as agreed"}
OTHER = FAILURE._replace(step="tax", exception="ValueError")


@pytest.fixture
def world(desk_runtime: Runtime) -> World:
    return World(desk_runtime, log=False)


def test_why_these_are_together(world: World) -> None:
    first, second = world.case(), world.case(failure=FAILURE._replace(message="no price for 99"))
    assert first.group_id == second.group_id
    view = world.desk.groups.show(first.group_id)
    (known,) = view.fingerprints
    assert known.made_of["step"] == "price"
    assert "17" not in known.made_of["message"]
    assert view.group.cases == {CaseState.OPEN: 2}


# What a person can make of a group; from every other state that is refused.
BY_HAND = {
    GroupState.ONGOING: (GroupState.NEW, GroupState.REGRESSED),
    GroupState.RESOLVED: (GroupState.NEW, GroupState.ONGOING, GroupState.ARCHIVED, GroupState.REGRESSED),
    GroupState.ARCHIVED: (GroupState.NEW, GroupState.ONGOING, GroupState.RESOLVED, GroupState.REGRESSED),
}


@sweep("state", GroupState)
@sweep("to", BY_HAND)
def test_every_move_by_hand(world: World, state: GroupState, to: GroupState) -> None:
    group = world.case(failure=FAILURE._replace(step=f"{state} to {to}")).group_id
    with world.database.transaction() as tx:
        for step in {GroupState.NEW: (), GroupState.REGRESSED: (GroupState.RESOLVED, state)}.get(state, (state,)):
            world.parts.groups.move(tx, group, step)
    act = {
        GroupState.ONGOING: lambda: world.desk.groups.look(group, **BY),
        GroupState.RESOLVED: lambda: world.desk.groups.resolve(group, **BY),
        GroupState.ARCHIVED: lambda: world.desk.groups.archive(group, Archive(more=3), **BY),
    }[to]
    if state in BY_HAND[to]:
        assert act().state is to
        (done,) = world.desk.groups.show(group).history
        assert (done.what, done.who, done.why, done.data["was"]) == (to, "ada", "as agreed", state)
    else:
        before = rows(world.database, "desk_group"), rows(world.database, "desk_history")
        with pytest.raises(IllegalGroupMove):
            act()
        assert (rows(world.database, "desk_group"), rows(world.database, "desk_history")) == before


def test_assigned_and_noted(world: World) -> None:
    group = world.case().group_id
    assert world.desk.groups.assign(group, "bob", **BY).assignee == "bob"
    world.desk.groups.note(group, "the supplier knows", who="ada")
    assert world.desk.groups.assign(group, None, **BY).assignee is None
    assert [done.what for done in world.desk.groups.show(group).history] == ["assigned", "noted", "assigned"]
    told = [row for row in rows(world.database, "event") if row["kind"] == EventKind.CASE_GROUP_CHANGED_BY_HAND]
    assert len(told) == 3
    with pytest.raises(BadValue):
        world.desk.groups.assign(group, " ", **BY)
    with pytest.raises(UnknownGroup):
        world.desk.groups.resolve(99, **BY)


def test_merged_and_taken_out_again(world: World) -> None:
    one, two = world.case(), world.case(failure=OTHER)
    merged = world.desk.groups.merge(one.group_id, two.group_id, **BY)
    assert merged.id == two.group_id
    assert merged.cases == {CaseState.OPEN: 2}
    assert [group.id for group in world.desk.groups.page()] == [two.group_id]
    assert world.desk.cases.count(CaseSelection(group=two.group_id)) == 2
    assert world.case().group_id == two.group_id  # what comes goes there
    group = world.desk.groups.unmerge(one.group_id, **BY)
    assert group.cases[CaseState.OPEN] == 1
    assert world.case().group_id == one.group_id
    with pytest.raises(BadValue, match="merged"):
        world.desk.groups.unmerge(one.group_id, **BY)


def test_groups_of_two_flows_are_not_merged(world: World) -> None:
    one, two = world.case(), world.case(flow="other")
    with pytest.raises(BadValue, match="flow"):
        world.desk.groups.merge(one.group_id, two.group_id, **BY)


def test_split_by_cases(world: World) -> None:
    cases = world.cases(3)
    done = world.desk.groups.split(cases[0].group_id, ids=[cases[1].id], title="of Bonn", **BY)
    assert (done.moved, done.job_id, done.group.title) == (1, None, "of Bonn")
    assert world.read(cases[1]).group_id == done.group.id
    assert world.desk.groups.show(cases[0].group_id).group.cases == {CaseState.OPEN: 2}
    assert world.case().group_id == cases[0].group_id  # what comes stays where it was
    other = world.case(failure=OTHER)
    with pytest.raises(BadValue, match="group"):
        world.desk.groups.split(cases[0].group_id, ids=[other.id], **BY)
    assert len(world.desk.groups.page()) == 3  # none was made for nothing


def test_split_by_fingerprint_moves_what_came_and_what_comes(world: World) -> None:
    one, two = world.case(), world.case(failure=OTHER)
    into = world.desk.groups.merge(one.group_id, two.group_id, **BY).id
    known = {each.made_of["step"]: each.fingerprint for each in world.desk.groups.show(into).fingerprints}
    done = world.desk.groups.split(into, fingerprint=known["price"], **BY)
    assert (done.moved, world.read(one).group_id, world.read(two).group_id) == (1, done.group.id, into)
    assert world.case().group_id == done.group.id
    for wrong in (
        {},
        {"ids": [one.id], "fingerprint": "x"},
        {"fingerprint": "nobody's"},
        {"ids": [one.id], "title": ""},
    ):
        with pytest.raises(BadValue):
            world.desk.groups.split(into, **wrong, **BY)


def test_a_split_of_many_is_a_bulk_job(desk_runtime: Runtime) -> None:
    world = World(desk_runtime)
    count = MOST_AT_ONCE + 40
    (case, *_) = world.cases(count)
    (known,) = world.desk.groups.show(case.group_id).fingerprints
    done = world.desk.groups.split(case.group_id, fingerprint=known.fingerprint, **BY)
    assert done.moved == MOST_AT_ONCE
    assert done.job_id is not None
    with world.hosted():
        world.ended(world.desk.jobs.find(done.job_id))
    assert world.desk.groups.show(done.group.id).group.cases == {CaseState.OPEN: count}
    assert world.desk.groups.page(flow=FLOW)[-1].live + world.desk.groups.page(flow=FLOW)[0].live == count


def test_found_by_code_and_by_what_they_say(world: World) -> None:
    price, tax = world.case().group_id, world.case(failure=OTHER).group_id

    def found(**asked: Any) -> list[int]:
        return [group.id for group in world.desk.groups.page(**asked)]

    assert found(code=9) == [tax, price]
    assert found(code=8) == []
    assert found(text="VALUEerror") == [tax]  # the exception, in whatever letters
    assert found(text="price FOR") == [tax, price]  # the title
    assert found(text="tax", flow=FLOW, state=GroupState.NEW) == [tax]
    assert found(text="tax", state=GroupState.RESOLVED) == []
    assert found(text="%") == []
    [first, *_] = world.desk.groups.page(code=9, limit=1)
    assert found(code=9, limit=1, before=(first.last_at, first.id)) == [price]


def test_who_may_not_see_a_field_finds_nothing_by_titles(world: World) -> None:
    price = world.case().group_id
    for number in range(3):
        world.case(failure=OTHER._replace(step=f"tax {number}"))
    masks = Masks({FLOW: ["id"]})

    def found(text: str, limit: int = 50) -> list[int]:
        return [group.id for group in world.desk.groups.page(text=text, limit=limit, masks=masks)]

    assert found("no price") == []
    assert found("KeyError") == [price]
    assert found("price", limit=1) == [price]  # the step; others have it in their titles
    assert len(found("tax", limit=2)) == 2


def see(world: World, group: int, cases: int, hours_ago: float) -> None:
    at = world.database.now() - int(hours_ago * HOUR_US)
    with world.database.transaction() as tx:
        world.parts.groups.see(tx, [GroupArrivals(group, cases, at, at)])


def test_the_trend_of_the_last_day(world: World) -> None:
    into_the_hour = world.database.now() % HOUR_US
    world.database.shift_clock((HOUR_US * 3 // 2 - into_the_hour) / 1e6)  # to the middle of one
    first, other = world.case().group_id, world.case(failure=OTHER).group_id
    for cases, hours_ago in ((3, 0), (2, 0), (5, 1), (7, 23), (100, 30), (1000, 1000)):
        see(world, first, cases, hours_ago)
    see(world, other, 11, 1)
    hours = world.desk.groups.trends([first, other])
    assert (len(hours[first]), hours[first][-1], hours[first][-2], hours[first][0]) == (24, 5, 5, 7)
    assert sum(hours[first]) == 17
    world.desk.groups.merge(other, first, **BY)
    assert world.desk.groups.trends([first])[first][-2] == 16
    assert world.desk.groups.trends([]) == {}
    world.database.shift_clock(2 * 3600)
    later = world.desk.groups.trends([first])[first]
    assert (later[-1], later[-2], later[-3], later[-4]) == (0, 0, 5, 16)
    assert sum(later) == 21  # what was 23 hours ago is out of it
