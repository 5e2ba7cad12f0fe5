"""What the desk lets go of when nothing needs it any more, and what it keeps, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.desk import NO_CITY, DeskFlow, intake_of, rows, take_all
from tests.support.desk_world import FAILURE, FLOW, World
from tests.support.taught import NO_CITY as WITHOUT_CITY
from tests.support.taught import city_rule, teach, without_city

from towpath.desk.cases.model import CaseState
from towpath.desk.corrections.model import Aspect, Count, Counts
from towpath.desk.corrections.store import EditToLearn, EvidenceStore
from towpath.desk.groups.store import GroupArrivals, GroupStore
from towpath.desk.janitor import DeskUpkeep
from towpath.errors import DatabaseUnavailable, UnknownGroup
from towpath.runtime import Runtime

DAY_S = 86400.0
BY: dict[str, Any] = {"who": "ada", "why": "known"}


def upkeep(runtime: Runtime, **settings: Any) -> DeskUpkeep:
    return DeskUpkeep(runtime.database, runtime.settings.desk.model_copy(update=settings), runtime.events)


@pytest.fixture
def world(desk_runtime: Runtime) -> World:
    return World(desk_runtime)


def failed(flow: DeskFlow, offset: int, trace: str) -> None:
    flow.fail(offset, failure=NO_CITY._replace(trace=f'  File "{trace}.py", line 1, in price\nValueError: x'))


def test_a_trace_goes_with_the_last_case_that_has_it(desk_runtime: Runtime) -> None:
    flow = DeskFlow(desk_runtime)
    failed(flow, 1, "old")
    failed(flow, 2, "kept")
    take_all(intake_of(desk_runtime))
    assert rows(desk_runtime.database, "select count(*) from desk_trace") == [(2,)]
    assert upkeep(desk_runtime).forget_traces() == 0
    desk_runtime.database.shift_clock(DAY_S)
    assert upkeep(desk_runtime).forget_traces() == 0  # cases have them
    [(id,)] = rows(desk_runtime.database, "select id from desk_case where start_offset = 1")
    with desk_runtime.database.transaction() as tx:
        tx.run(
            _query("delete from desk_attempt where case_id in (select id from desk_case where start_offset = 1)"), {}
        )
    assert upkeep(desk_runtime).forget_traces() == 1
    [(trace,)] = rows(desk_runtime.database, "select trace from desk_trace")
    assert "kept.py" in trace
    assert id


def test_a_trace_that_intake_needs_again_is_kept(desk_runtime: Runtime) -> None:
    """It was free when it was looked for, and is needed when it is to be deleted."""
    database, flow = desk_runtime.database, DeskFlow(desk_runtime)
    failed(flow, 1, "again")
    take_all(intake_of(desk_runtime))
    with database.transaction() as tx:
        tx.run(_query("delete from desk_attempt"), {})
    database.shift_clock(DAY_S)
    failed(flow, 2, "again")
    cleaning = upkeep(desk_runtime)
    transaction = database.transaction

    def taken_meanwhile() -> Any:
        database.transaction = transaction  # type: ignore[method-assign]
        take_all(intake_of(desk_runtime))
        return transaction()

    database.transaction = taken_meanwhile  # type: ignore[method-assign]
    try:
        assert cleaning.forget_traces() == 0
    finally:
        database.transaction = transaction  # type: ignore[method-assign]
    assert rows(database, "select count(*) from desk_trace") == [(1,)]


def _query(text: str) -> Any:
    from towpath.db.database import Query

    return Query("test", text, uses_now=False)


def test_groups_without_cases_go_after_their_time(world: World) -> None:
    empty = world.case().group_id
    kept = world.case(failure=FAILURE._replace(step="tax")).group_id
    with world.database.transaction() as tx:
        tx.run(_query("delete from desk_case where step = 'price'"), {})
    world.desk.groups.note(empty, "asked the shop", who="ada")
    now = world.database.now()
    with world.database.transaction() as tx:
        world.parts.groups.see(tx, [GroupArrivals(empty, 1, now, now)])
    assert upkeep(world.runtime).forget_groups() == 0
    world.database.shift_clock(400 * DAY_S)
    assert upkeep(world.runtime, group_retention_s=None).forget_groups() == 0
    assert upkeep(world.runtime).forget_groups() == 1
    with pytest.raises(UnknownGroup):
        world.desk.groups.show(empty)
    assert world.desk.groups.show(kept).group.id == kept
    assert rows(world.database, f"select count(*) from desk_fingerprint where group_id = {empty}") == [(0,)]
    assert rows(world.database, f"select count(*) from desk_history where group_id = {empty}") == [(0,)]
    assert rows(world.database, f"select count(*) from desk_tally where group_id = {empty}") == [(0,)]
    assert rows(world.database, f"select count(*) from desk_trend where group_id = {empty}") == [(0,)]
    assert world.case().group_id > kept  # the same error makes a new one


def test_hours_that_nobody_looks_at_go(world: World) -> None:
    group, now = world.case().group_id, world.database.now()
    with world.database.transaction() as tx:
        world.parts.groups.see(tx, [GroupArrivals(group, 1, now, now)])
    world.database.shift_clock(DAY_S)
    assert upkeep(world.runtime).forget_trends() == 0
    world.database.shift_clock(DAY_S + 7200)
    assert upkeep(world.runtime).forget_trends() == 1
    assert rows(world.database, "select count(*) from desk_trend") == [(0,)]


def test_a_group_into_which_another_was_merged_goes_after_that(world: World) -> None:
    into, other = world.case().group_id, world.case(failure=FAILURE._replace(step="tax")).group_id
    world.desk.groups.merge(other, into, **BY)
    with world.database.transaction() as tx:
        tx.run(_query("delete from desk_case"), {})
    world.database.shift_clock(400 * DAY_S)
    assert [upkeep(world.runtime).forget_groups() for _ in range(2)] == [1, 1]
    assert rows(world.database, "select count(*) from desk_group") == [(0,)]


def test_an_intake_and_the_upkeep_at_one_group(
    world: World, database_settings: dict[str, Any], make_desk: Callable[..., Runtime]
) -> None:
    """Whoever comes second waits: either the group stays, or the intake finds it gone and begins anew."""
    group = world.case().group_id
    with world.database.transaction() as tx:
        tx.run(_query("delete from desk_case"), {})
    world.database.shift_clock(400 * DAY_S)
    groups = GroupStore(world.database)
    deleted: list[int] = []
    second = threading.Thread(target=lambda: deleted.append(upkeep(world.runtime).forget_groups()))
    with world.database.transaction() as tx:  # as intake does it
        leads, _ = groups.of_fingerprints(tx, FLOW, [_fingerprint()], world.database.now())
        assert list(leads.values()) == [group]
        groups.see(tx, [_seen(group, world.database.now())])
        second.start()
        second.join(0.5)
        assert second.is_alive()
    second.join(30)
    assert deleted == [0]
    world.database.shift_clock(400 * DAY_S)
    assert upkeep(world.runtime).forget_groups() == 1
    with pytest.raises(DatabaseUnavailable, match="deleted"), world.database.transaction() as tx:
        groups.see(tx, [_seen(group, world.database.now())])


def _fingerprint() -> Any:
    from towpath.desk.groups.model import Fingerprint

    return Fingerprint.of(FAILURE)


def _seen(group: int, at: int) -> Any:
    from towpath.desk.groups.store import GroupArrivals

    return GroupArrivals(group, 1, at, at)


def test_what_rules_have_touched_goes_after_its_time_if_its_fate_is_known(world: World) -> None:
    corrections = world.runtime.corrections
    rule = city_rule(teach(world.runtime))
    corrections.turn_on(rule.id, **BY)
    known, unknown, gone = (world.case(without_city(n), failure=WITHOUT_CITY) for n in range(3))
    world.desk.operate.correct([case.id for case in (known, unknown, gone)], **BY)
    with world.database.transaction() as tx:
        world.parts.cases.move(tx, [known.id], CaseState.RESOLVED, who="towpath", why="loaded")
        tx.run(_query(f"delete from desk_case where seq = {gone.seq}"), {})
    corrections.report(FLOW)  # judges
    assert upkeep(world.runtime).forget_touched() == 0
    world.database.shift_clock(400 * DAY_S)
    assert upkeep(world.runtime, touched_retention_s=None).forget_touched() == 0
    assert upkeep(world.runtime).forget_touched() == 2
    assert [each.case_id for each in corrections.touched(rule.id)] == [unknown.id]
    assert corrections.rule(rule.id).right == 1  # what it has learned of itself stays


def test_verdicts_and_marks_of_edits_go(world: World) -> None:
    rule = city_rule(teach(world.runtime))
    case = world.case()
    store = EvidenceStore(world.database)
    with world.database.transaction() as tx:
        for number in range(3):
            edit = EditToLearn(case.id, number + 1, b"{}", "", "orders", 0, 0)
            assert store.mark(tx, edit)
            store.verdict(tx, FLOW, edit, "city", rule.id, True)
    assert upkeep(world.runtime).forget_touched() == 0
    with world.database.transaction() as tx:
        tx.run(_query("delete from desk_case"), {})
    assert upkeep(world.runtime).forget_touched() == 3  # marks: what is gone cannot be counted twice
    world.database.shift_clock(400 * DAY_S)
    assert upkeep(world.runtime).forget_touched() == 3


def test_counts_that_nothing_confirms_go(world: World) -> None:
    store = EvidenceStore(world.database)
    old, confirmed = (Count("city", Aspect.VALUE, "", "", f'"{name}"') for name in ("Ulm", "Bonn"))

    def add(*counts: Count) -> None:
        with world.database.transaction() as tx:
            store.add(tx, FLOW, taken=Counts(dict.fromkeys(counts, 1)))

    add(old, confirmed)
    world.database.shift_clock(300 * DAY_S)
    add(confirmed)
    world.database.shift_clock(100 * DAY_S)
    assert upkeep(world.runtime, evidence_retention_s=None).forget_evidence() == 0
    assert upkeep(world.runtime).forget_evidence() == 1
    with world.database.read() as tx:
        assert store.read(tx, FLOW) == Counts({confirmed: 2})


def test_it_runs_with_the_desk(desk_runtime: Runtime) -> None:
    names = {service.name for service in desk_runtime.desk_services().all}
    assert DeskUpkeep.name in names
