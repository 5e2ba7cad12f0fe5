"""Pages of flows: what they show of real rows, what their forms do, and who may not."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import pytest
from tests.support.console import HOSTILE, MakeVisitor, Visitor, has_run, said
from tests.support.flow_world import FLOW, TOPIC, FlowWorld
from tests.support.tables import by_hand, rows

from towpath.flow.delivery.places import RecordPlace
from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.stage import StageState
from towpath.flow.stage.states import StageCommandKind
from towpath.runtime import Runtime
from towpath.web.console.flows.actions import MEANINGS

AT = f"/flows/{FLOW}"


@pytest.fixture
def world(desk_runtime: Runtime) -> FlowWorld:
    return FlowWorld(desk_runtime)


@pytest.fixture
def visitor(make_visitor: MakeVisitor, desk_runtime: Runtime) -> Visitor:
    return make_visitor("operator", desk_runtime)


def offered(page: str) -> set[str]:
    """What the buttons of a page ask of a flow."""
    return {kind for kind in StageCommandKind if f'action="{AT}/{kind}"' in page or f'href="{AT}/{kind}"' in page}


# Looking


def test_no_flow_has_run_yet(visitor: Visitor) -> None:
    visitor.text("/flows")
    assert visitor.get("/flows/nothing").status_code == 404


def test_flows_are_listed_with_state_rate_lag_and_errors(visitor: Visitor, world: FlowWorld) -> None:
    world.send(*[b"{}"] * 25)
    world.batch()
    world.sample()
    world.move(StageState.EXTRACT)
    page = visitor.text("/flows")
    for text in (f'href="{AT}?stage={TOPIC}"', ">extract<", ">2.5<", ">15<", ">7<", world.me):
        assert text in page, text


def test_who_needs_a_person_comes_first_with_the_reason(visitor: Visitor, world: FlowWorld) -> None:
    world.move(StageState.HALTED, reason="the checkpoint is gone")
    page = visitor.text("/flows")
    assert page.index("the checkpoint is gone") < page.index("<table>")
    assert "has halted" in visitor.text(AT)


def test_a_flow_shows_its_graph_its_machine_and_its_ledger(visitor: Visitor, world: FlowWorld) -> None:
    world.send(*[b"{}"] * 30)
    world.batch()
    world.batch(commits=False)
    world.sample(history=[[world.runtime.database.now() // 10**6 - 60, 12, 1.0]])
    world.move(StageState.LOAD)
    page = visitor.text(AT)
    assert '<text class="lit"' in page
    assert "● load" in page
    for text in (
        "1/0",
        "1/1",
        "committed",
        "snapshot",
    ):
        assert text in page, text
    assert f'href="/topics/{TOPIC}/records?partition=0&amp;offset=0"' in page
    assert f'href="/desk/cases?flow={FLOW}&amp;code=7">7</a>' in page


def test_a_stage_that_waits_says_when_it_tries_again_and_why(visitor: Visitor, world: FlowWorld) -> None:
    soon = world.runtime.database.now() + 3_600_000_000
    world.move(StageState.RETRY, attempt=4, next_try=soon, resumes=StageState.LOAD, last_error=world.trouble("refused"))
    page = visitor.text(AT)
    assert ": refused" in page
    assert "attempt 4" in page
    assert "in 1 h" in page or "in 60 min" in page
    assert "stopped → configure" not in page
    assert "configure → retry" in page


def test_the_last_moves_are_listed_and_the_way_is_marked(visitor: Visitor, world: FlowWorld) -> None:
    world.move(StageState.EXTRACT)
    world.move(StageState.RETRY, next_try=1, resumes=StageState.EXTRACT)
    page = visitor.text(AT)
    assert page.index("extract → retry") < page.index("configure → extract")
    assert page.count('class="edge lit"') == 1


def test_nobody_runs_what_should_run(visitor: Visitor, world: FlowWorld) -> None:
    world.send(*[b"{}"] * 5)
    world.move(StageState.EXTRACT)
    world.sample(rate=98765.4, lag=0)
    by_hand(world.runtime.database, "update flow_stage set owner = 'somebody-gone'")
    page = visitor.text(AT)
    assert "somebody-gone" in page
    # The log is asked: what the stage saw last says nothing about now.
    assert '<p class="big">5</p>' in page
    assert "98,765" not in page


def test_of_several_stages_the_one_in_need_is_shown_or_the_one_that_is_asked_for(
    visitor: Visitor, world: FlowWorld
) -> None:
    other = FlowWorld(world.runtime, FLOW, "views")
    other.move(StageState.HELD, next_try=1, resumes=StageState.LOAD)
    assert "by an outage" in visitor.text(AT)
    assert "by an outage" not in visitor.text(f"{AT}?stage={TOPIC}")
    answer = visitor.get(f"{AT}?stage=x")
    assert answer.status_code == 422
    assert f"{TOPIC}, views" in unescape(answer.text)


def test_charts_can_show_more_hours(visitor: Visitor, world: FlowWorld) -> None:
    world.batch()
    for hours in ("1", "6", "24", "nonsense"):
        visitor.text(f"{AT}?hours={hours}")


def test_batches_are_turned_over_by_pages(visitor: Visitor, world: FlowWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.web.console.flows.flows.BATCH_ROWS", 2)
    for _ in range(5):
        world.batch()
    seen: list[str] = []
    path: str | None = f"{AT}/batches"
    while path is not None:
        page = visitor.text(path)
        seen += re.findall(r">(1/\d)<", page)
        older = re.search(r'href="([^"]*before=[^"]*)" rel="next"', page)
        path = None if older is None else unescape(older[1])
    assert seen == ["1/4", "1/3", "1/2", "1/1", "1/0"]
    assert visitor.get(f"{AT}/batches?before=drop").status_code == 422
    assert visitor.get(f"{AT}/batches?before=1-2_1-2").status_code == 422


def test_what_will_never_be_read_is_told(visitor: Visitor, world: FlowWorld) -> None:
    id = world.runtime.log.topic(TOPIC).id
    with world.runtime.database.transaction() as tx:
        world.ledger.add_gap(tx, FLOW, TOPIC, 1, OffsetRange(TOPIC, id, 0, 3, 1_000), "deleted before it was read")
    page = visitor.text(AT)
    assert "deleted before it was read" in page


# Steering


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (StageState.LOAD, {"pause", "stop", "reset"}),
        (StageState.RETRY, {"pause", "resume", "stop", "reset"}),
        (StageState.PAUSED, {"resume", "stop", "reset"}),
        (StageState.STOPPED, {"reset"}),
    ],
)
def test_only_what_can_be_asked_is_offered(
    visitor: Visitor, world: FlowWorld, state: StageState, expected: set[str]
) -> None:
    world.move(state, next_try=1, resumes=StageState.LOAD)
    assert offered(visitor.text(AT)) == expected


@pytest.mark.parametrize("kind", ["pause", "stop"])
def test_a_wish_is_kept_with_who_and_why(visitor: Visitor, world: FlowWorld, kind: str) -> None:
    world.move(StageState.LOAD)
    page = visitor.done(f"{AT}/{kind}", why="the sink is rebuilt", stage="", back=AT)
    assert TOPIC in said(page)
    wish = world.stage().wish
    assert wish is not None
    assert (wish.kind, wish.who, wish.why) == (kind, "operator", "the sink is rebuilt")
    (trail,) = [row for row in rows(world.runtime.database, "access_audit") if f"{kind} flow" in str(row)]
    assert "operator" in str(trail)


def test_a_halted_stage_is_resumed(visitor: Visitor, world: FlowWorld) -> None:
    world.move(StageState.HALTED, reason="a person has to look")
    visitor.done(f"{AT}/resume", stage=TOPIC)
    wish = world.stage().wish
    assert wish is not None
    assert wish.kind is StageCommandKind.RESUME


def test_what_cannot_be_asked_now_is_refused(visitor: Visitor, world: FlowWorld) -> None:
    world.move(StageState.LOAD)
    visitor.refused(f"{AT}/resume", 409)
    assert world.stage().wish is None


def test_a_reason_is_needed(visitor: Visitor, world: FlowWorld) -> None:
    world.move(StageState.LOAD)
    visitor.refused(f"{AT}/pause", 422, why="")
    assert world.stage().wish is None


def test_a_reset_is_shown_before_it_is_asked_for(visitor: Visitor, world: FlowWorld) -> None:
    world.send(*[b"{}"] * 25)
    world.batch()
    ahead = visitor.text(f"{AT}/reset?to=latest")
    assert " 15 " in ahead
    assert world.stage().wish is None
    anew = visitor.text(f"{AT}/reset")
    assert " 10 " in anew
    visitor.done(f"{AT}/reset", to="latest", why="what is there is rubbish")
    wish = world.stage().wish
    assert wish is not None
    assert (wish.kind, wish.arguments) == (StageCommandKind.RESET, {"to": "latest"})


def test_a_reset_to_nowhere_is_refused(visitor: Visitor, world: FlowWorld) -> None:
    assert visitor.get(f"{AT}/reset?to=moon").status_code == 422
    visitor.refused(f"{AT}/reset", 422, to="")
    assert world.stage().wish is None


def test_a_viewer_looks_and_changes_nothing(make_visitor: MakeVisitor, desk_runtime: Runtime, world: FlowWorld) -> None:
    world.move(StageState.LOAD)
    viewer = make_visitor("viewer", desk_runtime)
    assert offered(viewer.text(AT)) == set()
    for kind in ("pause", "resume", "stop", "reset"):
        viewer.refused(f"{AT}/{kind}", 403, to="latest")
    assert viewer.get(f"{AT}/reset").status_code == 403
    assert world.stage().wish is None


# Auditing


def audited(world: FlowWorld) -> None:
    """Ten records that were read, of which none has failed, and five in flight."""
    world.send(*[b"{}"] * 15)
    world.batch({"read": 10, "loaded": 9, "filtered": {"wanted": 1}, "failed": {}, "delivered": {"docs": 9}})


def test_the_ledger_is_told_at_once_and_called_no_proof(visitor: Visitor, world: FlowWorld) -> None:
    audited(world)
    page = visitor.text(f"{AT}/audit")
    assert "record by record" not in page


def test_counted_records_prove_the_balance(visitor: Visitor, world: FlowWorld) -> None:
    audited(world)
    page = visitor.text(f"{AT}/audit?count=yes")
    assert "record by record" in page
    assert re.search(r"<td>in flight</td><td class=\"num\">5</td>", page)
    assert re.search(r"<td>arrived</td><td class=\"num\">15</td>", page)


def test_a_record_that_is_missing_is_found(visitor: Visitor, world: FlowWorld) -> None:
    world.send(*[b"{}"] * 9)
    world.batch({"read": 10, "loaded": 10, "filtered": {}, "failed": {}, "delivered": {}})
    page = visitor.text(f"{AT}/audit?count=yes")
    assert "Problems" in page


def test_what_takes_too_long_is_left_to_the_command(
    visitor: Visitor, world: FlowWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited(world)
    monkeypatch.setattr("towpath.web.console.flows.actions.LONGEST_S", 1e-9)
    assert "towpath audit shop" in visitor.text(f"{AT}/audit?count=yes")


def test_every_place_is_told_in_words() -> None:
    assert set(MEANINGS) == set(RecordPlace)


# What is shown is hostile, or not for everybody


def test_what_stands_in_rows_is_text(visitor: Visitor, world: FlowWorld) -> None:
    hostile = " ".join(HOSTILE).replace("\x07", "").replace("\x1b", "")
    world.move(StageState.RETRY, next_try=1, resumes=StageState.LOAD, last_error=world.trouble(hostile))
    world.move(StageState.HALTED, reason=hostile, last_error=world.trouble(hostile))
    for path in ("/flows", AT, f"{AT}/batches", f"{AT}/audit?count=yes", f"{AT}/reset"):
        page = visitor.text(path)
        assert not has_run(page)
    assert "{{7*7}}" in visitor.text(AT)  # not worked out


def test_what_quotes_records_is_hidden_from_who_may_not_see_them(
    make_visitor: MakeVisitor, make_desk: Callable[..., Runtime]
) -> None:
    runtime = make_desk(desk={"masked": {FLOW: ["email"]}})
    world = FlowWorld(runtime)
    world.move(StageState.RETRY, next_try=1, resumes=StageState.LOAD, last_error=world.trouble("a@b.example is bad"))
    viewer, admin = make_visitor("viewer", runtime), make_visitor("admin", runtime)
    for path in ("/flows", AT):
        assert "a@b.example" not in viewer.text(path)
        assert "a@b.example" in admin.text(path)
