"""Edits: a checked copy of the body, the original kept, refused when stale, by two persons where that is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.desk_world import STAGE, World, topology
from tests.support.sweep import sweep
from tests.support.tables import by_hand, rows

from towpath.desk.actions.actions import JobKind
from towpath.desk.cases.model import CaseSelection, CaseState
from towpath.desk.edits import EditResult, EditState
from towpath.errors import BadEdit, BadValue, NeedsAnother, Refused, StaleEdit, UnknownCase
from towpath.flow.flow import Flow
from towpath.flow.graph.sources import topic
from towpath.flow.stage.store import StageStore
from towpath.runtime import Runtime

BY: dict[str, Any] = {"who": "ada", "why": "a typing slip"}
OLD, NEW = b'{"id":1,"city":"Bon"}', b'{"id":1,"city":"Bonn"}'
TABLES = ("desk_case", "desk_edit", "desk_body", "desk_history", "event")


@pytest.fixture
def world(desk_runtime: Runtime) -> World:
    return World(desk_runtime, log=False)


def everything(world: World) -> list[Any]:
    return [rows(world.database, table) for table in TABLES]


def edit(world: World, id: str, value: bytes, **more: Any) -> EditResult:
    return world.desk.edits.edit(id, value, **{"seen": world.desk.cases.show(id).seen, **BY, **more})


def test_the_copy_goes_out_and_the_record_is_kept(world: World) -> None:
    case = world.case(OLD)
    done = edit(world, case.id, NEW)
    assert (done.edit.edit, done.edit.state) == (1, EditState.APPLIED)
    view = world.desk.cases.show(case.id)
    assert (view.value, view.case.edit) == (NEW, 1)
    assert [(change.path, change.before, change.after) for change in view.edits[0].changes] == [
        ("city", '"Bon"', '"Bonn"')
    ]
    with world.database.read() as tx:
        assert world.parts.cases.originals(tx, [case.id])[case.id].value == OLD
    assert [(done.what, done.who, done.why) for done in view.history] == [("edited", "ada", "a typing slip")]


def test_what_was_changed_is_known_when_the_record_is_gone(world: World) -> None:
    case = world.case(OLD)
    edit(world, case.id, NEW)
    world.desk.operate.abandon([case.id], **BY)
    (view,) = world.desk.cases.show(case.id).edits
    assert [tuple(change) for change in view.changes] == [("city", '"Bon"', '"Bonn"')]


def test_edits_follow_each_other_and_can_be_taken_back(world: World) -> None:
    case = world.case(OLD)
    edit(world, case.id, NEW)
    edit(world, case.id, b'{"id":1,"city":"Berlin"}')
    view = world.desk.cases.show(case.id)
    assert view.case.edit == 2
    assert [each.edit.state for each in view.edits] == ["applied", "applied"]
    world.desk.edits.restore(case.id, seen=view.seen, **BY)
    after = world.desk.cases.show(case.id)
    assert (after.value, after.case.edit) == (OLD, 0)
    edit(world, case.id, NEW)  # under a number of its own
    assert world.desk.cases.show(case.id).case.edit == 3
    with pytest.raises(BadEdit, match="nothing"):
        world.desk.edits.restore(world.case().id, seen=world.desk.cases.show(world.case().id).seen, **BY)


@sweep(
    ("value", "why"),
    [
        (b'{"id":1,', "line 1, column"),
        (b'{"id":1}\n{"id":2}', "line 2, column 1"),
        (b'{"id":1,"id":2}', '"id" stands twice'),
        (b'\xff{"id":1}', "not UTF-8"),
        (b"[1]", "an array, not an object"),
        (b"", "at line 1, column 1"),
        (b'{"id":"one"}', "field id: expected bigint, found string"),
        (b'{"city":"Bonn"}', "field id"),
        (b'{"id":1,"city":7}', "field city: expected string, found number 7"),
        (b'{"id":1,"city":"' + b"x" * (1 << 20) + b'"}', "the limit is 1048576"),
        (b'{"id":NaN}', "line 1"),
    ],
)
def test_what_cannot_go_into_the_flow_is_refused_with_the_place(world: World, value: bytes, why: str) -> None:
    case = world.case(OLD)
    before = everything(world)
    with pytest.raises(BadEdit) as refused:
        edit(world, case.id, value)
    assert why in str(refused.value)
    assert everything(world) == before


def test_fields_outside_of_a_strict_schema(desk_runtime: Runtime) -> None:
    world = World(desk_runtime, log=False, shape=topology(extra="refuse"))
    with pytest.raises(BadEdit, match="town"):
        edit(world, world.case(OLD).id, b'{"id":1,"town":"Bonn"}')


def test_a_flow_without_a_schema_takes_any_object(desk_runtime: Runtime) -> None:
    world = World(desk_runtime, log=False, shape=topology(None))
    assert edit(world, world.case(OLD).id, b'{"x":[1]}').checked


def test_the_rules_of_a_json_schema_are_in_the_code(desk_runtime: Runtime) -> None:
    world = World(desk_runtime, log=False, shape=topology(rules="0123"))
    case = world.case(OLD)
    flow = Flow("shop")
    flow.source(
        topic("orders"), schema={"type": "object", "properties": {"city": {"enum": ["Bonn", "Berlin"]}}}, name="orders"
    )
    with pytest.raises(BadEdit, match="city"):
        edit(world, case.id, b'{"id":1,"city":"Rome"}', flow=flow)
    checked = edit(world, case.id, NEW, flow=flow).checked
    assert "--flow" not in checked
    assert "--flow" in edit(world, case.id, b'{"id":1,"city":"Rome"}').checked
    with pytest.raises(Refused, match="other"):
        edit(world, case.id, NEW, flow=Flow("other"))


def test_a_flow_that_never_ran_here(world: World) -> None:
    case = world.case(OLD, flow="gone")
    assert edit(world, case.id, NEW).checked


def test_stale_another_edit(make_desk: Callable[..., Runtime]) -> None:
    """Two operators on one case."""
    world = World(make_desk(), log=False)
    other = make_desk().desk
    case = world.case(OLD)
    seen = other.cases.show(case.id).seen
    edit(world, case.id, NEW)
    before = everything(world)
    with pytest.raises(StaleEdit, match="edit 1"):
        other.edits.edit(case.id, b'{"id":1,"city":"Berlin"}', seen=seen, who="bob", why="I know better")
    with pytest.raises(StaleEdit):
        other.edits.restore(case.id, seen=seen, who="bob", why="I know better")
    assert everything(world) == before


def test_stale_it_has_moved_or_failed_again(desk_runtime: Runtime) -> None:
    world = World(desk_runtime)
    case = world.case(OLD)
    seen = world.desk.cases.show(case.id).seen
    world.desk.operate.replay([case.id], **BY)
    with pytest.raises(BadEdit, match="replaying"):
        world.desk.edits.edit(case.id, NEW, seen=seen, **BY)
    parked = world.case(OLD, state=CaseState.PARKED, behind=case.id)
    with pytest.raises(StaleEdit, match="parked"):
        world.desk.edits.edit(parked.id, NEW, seen=seen, **BY)


def test_nothing_changed(world: World) -> None:
    case = world.case(OLD)
    with pytest.raises(BadEdit, match="nothing"):
        edit(world, case.id, OLD)


def test_a_settled_case_and_an_unknown_one(world: World) -> None:
    case = world.case(OLD)
    seen = world.desk.cases.show(case.id).seen
    world.desk.operate.abandon([case.id], **BY)
    with pytest.raises(BadEdit, match="abandoned"):
        world.desk.edits.edit(case.id, NEW, seen=seen, **BY)
    with pytest.raises(UnknownCase):
        world.desk.edits.edit("00000000-0000-0000-0000-000000000000", NEW, seen=seen, **BY)


def test_two_persons(make_desk: Callable[..., Runtime]) -> None:
    world = World(make_desk(desk={"second_person": True}), log=False)
    case = world.case(OLD)
    done = edit(world, case.id, NEW)
    assert done.is_proposed
    assert world.desk.cases.show(case.id).value == OLD
    with pytest.raises(NeedsAnother):
        world.desk.edits.agree(case.id, 1, who="ada", why="looks good")
    world.desk.edits.agree(case.id, 1, who="bob", why="looks good")
    view = world.desk.cases.show(case.id)
    assert (view.value, view.case.edit, view.edits[0].edit.decided_by) == (NEW, 1, "bob")
    with pytest.raises(StaleEdit, match=rf"case {case.seq} .* edit 1 "):
        world.desk.edits.agree(case.id, 1, who="eve", why="me too")
    assert [each.what for each in view.history] == ["proposed", "agreed"]


def test_where_nothing_waits_for_a_second_person_that_is_said(world: World) -> None:
    case = world.case(OLD)
    edit(world, case.id, NEW)
    for who in ("ada", "bob"):
        with pytest.raises(StaleEdit, match="edit 1 "):
            world.desk.edits.agree(case.id, 1, who=who, why="yes")


@pytest.mark.parametrize("act", ["replay", "resend"])
def test_nothing_goes_out_while_an_edit_waits_for_a_second_person(make_desk: Callable[..., Runtime], act: str) -> None:
    """The record would go out without what somebody has put right."""
    world = World(make_desk(desk={"second_person": True}))
    case, other = world.case(OLD), world.case(OLD)
    edit(world, case.id, NEW)
    send = getattr(world.desk.operate, act)
    with pytest.raises(BadValue, match=rf"case {case.seq}: edit 1 .*towpath desk agree"):
        send([case.id], **BY)
    done = send([case.id, other.id], **BY)
    assert [each.id for each in done.done] == [other.id]
    assert case.id in done.refused
    assert world.read(case).state is CaseState.OPEN
    world.desk.edits.refuse(case.id, 1, who="bob", why="as it is")
    assert send([case.id], **BY).done


def test_a_bulk_job_refuses_what_waits_for_a_second_person(make_desk: Callable[..., Runtime]) -> None:
    world = World(make_desk(desk={"second_person": True}))
    case, other = world.case(OLD), world.case(OLD)
    edit(world, case.id, NEW)
    with world.hosted():
        job = world.ended(world.desk.jobs.plan(JobKind.REPLAY, CaseSelection(flow="shop"), begin=True, **BY))
    assert (job.done, job.refused) == (1, 1)
    [item] = world.desk.jobs.show(job.id).refused
    assert item.case_id == case.id
    assert (world.read(case).state, world.read(other).state) == (CaseState.OPEN, CaseState.REPLAYING)


def test_what_was_proposed_before_the_last_failure_is_not_agreed_to(make_desk: Callable[..., Runtime]) -> None:
    world = World(make_desk(desk={"second_person": True}), log=False)
    case = world.case(OLD)
    edit(world, case.id, NEW)
    by_hand(world.database, "update desk_case set attempts = attempts + 1")
    before = everything(world)
    with pytest.raises(StaleEdit, match="edit 1 "):
        world.desk.edits.agree(case.id, 1, who="bob", why="looks good")
    assert everything(world) == before
    edit(world, case.id, b'{"id":1,"city":"Berlin"}')
    world.desk.edits.agree(case.id, 2, who="bob", why="looks good")
    assert world.read(case).edit == 2


def test_of_two_proposals_one_is_overtaken_and_one_can_be_refused(make_desk: Callable[..., Runtime]) -> None:
    world = World(make_desk(desk={"second_person": True}), log=False)
    case = world.case(OLD)
    edit(world, case.id, NEW)
    edit(world, case.id, b'{"id":1,"city":"Berlin"}', who="eve")
    edit(world, case.id, b'{"id":1,"city":"Rome"}', who="eve")
    world.desk.edits.refuse(case.id, 3, who="bob", why="no such shop")
    world.desk.edits.agree(case.id, 2, who="bob", why="yes")
    states = [each.edit.state for each in world.desk.cases.show(case.id).edits]
    assert states == [EditState.OVERTAKEN, EditState.APPLIED, EditState.REFUSED]
    with pytest.raises(BadEdit, match="edit 9"):
        world.desk.edits.agree(case.id, 9, who="bob", why="yes")


def test_the_schema_is_that_of_the_stage_as_it_runs_now(world: World) -> None:
    case = world.case(OLD)
    with world.database.transaction() as tx:
        stages = StageStore(world.database)
        stages.take(tx, "shop", STAGE, "me")
        stages.save_topology(tx, "shop", STAGE, "me", topology({"id": "bigint", "city": "bigint"}), "2")
    with pytest.raises(BadEdit, match="bigint"):
        edit(world, case.id, NEW)
