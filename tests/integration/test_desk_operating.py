"""What persons do to cases: one transaction with who, why, history and event, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.desk_world import FLOW, SOURCE, World
from tests.support.sweep import sweep
from tests.support.tables import rows

from towpath.core.events import EventKind
from towpath.desk.actions.service import MOST_AT_ONCE, ActionResult, CaseActions
from towpath.desk.cases.model import GAP, STRAY, CaseSelection, CaseState
from towpath.errors import BadName, BadValue, IllegalCaseMove, Refused, UnknownCase
from towpath.runtime import Runtime

BY: dict[str, Any] = {"who": "ada", "why": "mended"}
TABLES = ("desk_case", "desk_tally", "desk_history", "desk_outbox", "desk_lane", "desk_body", "event")


@pytest.fixture
def world(desk_runtime: Runtime) -> World:
    return World(desk_runtime)


def everything(world: World) -> dict[str, list[dict[str, Any]]]:
    return {table: rows(world.database, table) for table in TABLES}


def events(world: World) -> list[tuple[str, str, Any]]:
    kind = EventKind.CASE_CHANGED_BY_HAND
    return [(row["subject"], row["who"], row["why"]) for row in rows(world.database, "event") if row["kind"] == kind]


ACTS: dict[str, Callable[[CaseActions, list[str]], ActionResult]] = {
    "replay": lambda operate, ids: operate.replay(ids, **BY),
    "delay": lambda operate, ids: operate.replay(ids, delay_s=60, **BY),
    "resend": lambda operate, ids: operate.resend(ids, **BY),
    "recall": lambda operate, ids: operate.recall(ids, **BY),
    "abandon": lambda operate, ids: operate.abandon(ids, **BY),
    "open": lambda operate, ids: operate.open(ids, **BY),
    "assign": lambda operate, ids: operate.assign(ids, "bob", **BY),
}
WHERE_TO = {
    "replay": {CaseState.OPEN: "replaying", CaseState.WAITING: "replaying"},
    "delay": {CaseState.OPEN: "waiting"},
    "resend": {CaseState.OPEN: "replaying", CaseState.WAITING: "replaying"},
    "recall": {CaseState.WAITING: "open"},
    "abandon": {
        CaseState.WAITING: "abandoned",
        CaseState.PARKED: "abandoned",
        CaseState.OPEN: "abandoned",
        CaseState.IGNORED: "abandoned",
    },
    "open": {CaseState.IGNORED: "open", CaseState.PARKED: "open"},
    "assign": {
        CaseState.WAITING: "waiting",
        CaseState.PARKED: "parked",
        CaseState.OPEN: "open",
        CaseState.REPLAYING: "replaying",
        CaseState.IGNORED: "ignored",
    },
}


def case_in(world: World, state: CaseState) -> Any:
    if state is CaseState.WAITING:
        case = world.case()
        world.desk.operate.replay([case.id], delay_s=60, **BY)
    elif state is CaseState.PARKED:
        case = world.case(state=state, behind=world.case().id)
    elif state in (CaseState.RESOLVED, CaseState.RESENT):
        case = world.case(state=CaseState.REPLAYING)
        with world.database.transaction() as tx:
            assert world.parts.cases.move(tx, [case.id], state, who="towpath", why="outcome")
    elif state is CaseState.ABANDONED:
        case = world.case()
        world.desk.operate.abandon([case.id], **BY)
    else:
        case = world.case(state=state)
    return world.read(case)


@sweep("act", ACTS)
@sweep("state", list(CaseState))
def test_every_act_in_every_state(world: World, act: str, state: CaseState) -> None:
    case = case_in(world, state)
    before = everything(world)
    told = len(events(world))
    wanted = WHERE_TO[act].get(state)
    if wanted is None:
        with pytest.raises(Refused, match=f"case {case.seq}\\b"):
            ACTS[act](world.desk.operate, [case.id])
        assert everything(world) == before
        return
    done = ACTS[act](world.desk.operate, [case.id])
    assert [each.id for each in done.done] == [case.id]
    assert not done.refused
    after = world.read(case)
    assert after.state == wanted
    assert events(world)[told:] == [(case.id, "ada", "mended")]
    with world.database.read() as tx:
        last = world.parts.history.of_case(tx, case.id)[-1]
    assert (last.who, last.why) == ("ada", "mended")
    # Whatever was sent of it before counts no more, except that a name on it changes nothing.
    assert after.ticket == case.ticket + (act != "assign")


def test_what_is_sent_back_lies_in_the_outbox_and_keeps_its_body(world: World) -> None:
    """Removed before it succeeded: others let the record go when they send it (KurrentDB 2181)."""
    now, later, source = world.cases(3)
    world.desk.operate.replay([now.id], **BY)
    world.desk.operate.replay([later.id], delay_s=300, **BY)
    world.desk.operate.resend([source.id], **BY)
    going = [
        (row["case_id"], row["target"], row["ticket"], row["attempt"]) for row in rows(world.database, "desk_outbox")
    ]
    assert going == [(now.id, "reentry", 1, 2), (later.id, "lane", 1, 2), (source.id, "source", 1, 2)]
    assert {row["case_id"] for row in rows(world.database, "desk_body")} == {now.id, later.id, source.id}


def test_an_abandoned_case_lets_its_body_go_and_says_who_and_why(world: World) -> None:
    case = world.case()
    world.desk.operate.abandon([case.id], **BY)
    after = world.read(case)
    assert (after.settled_by, after.settled_why) == ("ada", "mended")
    assert rows(world.database, "desk_body") == []


def test_what_is_parked_behind_an_abandoned_case_goes_on(world: World) -> None:
    first = world.case(key_hash="k" * 32)
    behind = world.case(state=CaseState.PARKED, behind=first.id, key_hash="k" * 32)
    world.desk.operate.abandon([first.id], **BY)
    after = world.read(behind)
    assert (after.state, after.behind) == (CaseState.REPLAYING, None)
    assert [str(row["case_id"]) for row in rows(world.database, "desk_outbox")] == [behind.id]


def test_a_gap_is_acknowledged_by_abandoning_it_and_cannot_be_sent(world: World) -> None:
    gap = world.case(kind=GAP)
    with pytest.raises(BadValue, match="abandon"):
        world.desk.operate.replay([gap.id], **BY)
    world.desk.operate.abandon([gap.id], **BY)
    assert world.read(gap).state is CaseState.ABANDONED


def test_a_stray_record_cannot_be_sent(world: World) -> None:
    stray = world.case(kind=STRAY)
    with pytest.raises(BadValue, match="stage"):
        world.desk.operate.resend([stray.id], **BY)


def test_of_several_each_has_its_answer(world: World) -> None:
    good, bad = world.cases(2)
    world.desk.operate.abandon([bad.id], **BY)
    done = world.desk.operate.replay([good.id, bad.id, "0" * 8 + bad.id[8:]], **BY)
    assert [case.id for case in done.done] == [good.id]
    assert list(done.refused) == ["0" * 8 + bad.id[8:], bad.id]


def test_too_many_at_once_are_a_bulk_job(world: World) -> None:
    with pytest.raises(BadValue, match="bulk"):
        world.desk.operate.replay([str(n) for n in range(MOST_AT_ONCE + 1)], **BY)
    with pytest.raises(BadValue, match="1 to"):
        world.desk.operate.replay([], **BY)


def test_an_unknown_case(world: World) -> None:
    with pytest.raises(UnknownCase):
        world.desk.operate.replay(["00000000-0000-0000-0000-000000000000"], **BY)


@pytest.mark.parametrize(("who", "why", "error"), [("", "x", BadName), ("ada", " ", BadValue)])
def test_a_change_needs_a_name_and_a_reason(world: World, who: str, why: str, error: type[Refused]) -> None:
    case = world.case()
    before = everything(world)
    for act in ("replay", "resend", "abandon"):
        with pytest.raises(error):
            getattr(world.desk.operate, act)([case.id], who=who, why=why)
    assert everything(world) == before


def test_of_two_operators_the_second_is_told(make_desk: Callable[..., Runtime]) -> None:
    world = World(make_desk())
    other = make_desk().desk
    case = world.case()
    seen = other.cases.show(case.id)
    world.desk.operate.abandon([case.id], who="ada", why="useless")
    assert seen.case.state is CaseState.OPEN
    with pytest.raises(IllegalCaseMove) as caught:
        other.operate.replay([case.id], who="bob", why="mended")
    assert (caught.value.state, caught.value.target) == (CaseState.ABANDONED, CaseState.REPLAYING)


def test_a_replay_can_be_undone_while_it_waits(world: World) -> None:
    case = world.case()
    world.desk.operate.replay([case.id], delay_s=3600, **BY)
    assert world.read(case).due_at is not None
    world.desk.operate.recall([case.id], **BY)
    after = world.read(case)
    assert (after.state, after.due_at, after.lane, after.ticket) == (CaseState.OPEN, None, None, 2)
    assert (after.attempts, after.give_backs) == (1, 1), "what was called off burns no attempt"


def test_nothing_goes_to_a_flow_that_is_gone(world: World) -> None:
    case = world.case(flow="gone")
    before = everything(world)
    with pytest.raises(BadValue, match="gone"):
        world.desk.operate.replay([case.id], **BY)
    assert everything(world) == before


def test_nothing_goes_to_a_topic_that_is_gone(world: World) -> None:
    case = world.case()
    world.runtime.log.delete_topic(f"{FLOW}.reentry")
    world.runtime.log.delete_topic(SOURCE)
    before = everything(world)
    with pytest.raises(BadValue, match=f"{FLOW}.reentry"):
        world.desk.operate.replay([case.id], **BY)
    with pytest.raises(BadValue, match=SOURCE):
        world.desk.operate.resend([case.id], **BY)
    assert everything(world) == before
    world.desk.operate.abandon([case.id], **BY)  # what needs no way still works


@sweep("delay_s", [0, -1, 1e9, float("nan")])
def test_an_impossible_delay(world: World, delay_s: float) -> None:
    with pytest.raises(BadValue, match="delay"):
        world.desk.operate.replay([world.case().id], delay_s=delay_s, **BY)


def test_a_note_stays_with_its_case(world: World) -> None:
    case = world.case()
    world.desk.operate.note(case.id, "asked the shop", who="ada")
    (done,) = world.desk.cases.show(case.id).history
    assert (done.what, done.who, done.why) == ("noted", "ada", "asked the shop")


def test_the_flows_own_positions_do_not_move(world: World) -> None:
    """A replay wrote the parked position as the main checkpoint (KurrentDB 500)."""
    world.runtime.log.commit_positions("towpath.shop.main", {(SOURCE, 0): 5})
    case = world.case()
    world.desk.operate.replay([case.id], **BY)
    world.desk.operate.resend([world.case().id], **BY)
    assert world.runtime.log.positions("towpath.shop.main") == {(SOURCE, 0): 5}


def test_what_is_listed_is_what_there_is(world: World) -> None:
    world.cases(3)
    other = world.case(state=CaseState.IGNORED)
    page = world.desk.cases.page(CaseSelection(states=(CaseState.IGNORED,)))
    assert [case.id for case in page.cases] == [other.id]
    assert page.next is None
    first = world.desk.cases.page(CaseSelection(), limit=3)
    rest = world.desk.cases.page(CaseSelection(), limit=3, before=first.next)
    assert len(first.cases) == 3
    assert len(rest.cases) == 1
    assert rest.next is None
