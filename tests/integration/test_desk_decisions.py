"""What the rules of a flow decide is done by the intake, in the transaction that takes the error in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.desk import NO_CITY, DeskFlow, check_tallies, intake_of, rows, take_all

from towpath.core.clock import to_datetime
from towpath.desk.cases.model import Case, CaseSelection, CaseState
from towpath.desk.cases.store import CaseStore
from towpath.desk.intake.decision import KEY_HELD
from towpath.desk.policies.store import PolicyStore
from towpath.flow.failures import RecordFailure
from towpath.flow.records.reentry import CORRECTED, reentry_record
from towpath.log.record import Record
from towpath.policy import Match, Rule, exponential, ignore, repeat, repeat_after, salvage
from towpath.runtime import Runtime


@pytest.fixture
def desk(
    make_runtime: Callable[..., Runtime],
    database_settings: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Runtime:
    monkeypatch.chdir(tmp_path)
    is_sqlite = database_settings["url"].startswith("sqlite")
    return make_runtime(log={"url": "embedded" if is_sqlite else f"sqlite:///{tmp_path}/log.db"})


@pytest.fixture
def flow(desk: Runtime) -> DeskFlow:
    return DeskFlow(desk)


def declare(desk: Runtime, *rules: Rule) -> None:
    with desk.database.transaction() as tx:
        PolicyStore(desk.database).declare(tx, "shop", None, rules)


def cases(desk: Runtime) -> list[Case]:
    with desk.database.read() as tx:
        return sorted(CaseStore(desk.database).page(tx, CaseSelection(), 1000), key=lambda case: case.seq)


def outbox(desk: Runtime) -> list[tuple[Any, ...]]:
    return rows(desk.database, "select target, attempt, ticket, lane from desk_outbox order by seq")


def comes_back(desk: Runtime, flow: DeskFlow, case: Case) -> Record:
    """As the relay sends it."""
    with desk.database.read() as tx:
        body = CaseStore(desk.database).bodies(tx, [case.id])[case.id]
    error = Record("", 0, 0, 0, case.key, body.value, body.headers)
    ((partition, offset),) = desk.log.append(flow.topics.reentry, [reentry_record(error, case.id, case.next_attempt)])
    found = desk.log.record(flow.topics.reentry, partition, offset)
    assert found is not None
    return found


def test_again_at_once_and_then_a_person(desk: Runtime, flow: DeskFlow) -> None:
    declare(desk, Rule(repeat(2), Match()))
    intake = intake_of(desk)
    flow.fail(1)
    for attempt in (1, 2):
        take_all(intake)
        (case,) = cases(desk)
        assert (case.state, case.attempts, case.ticket, case.rule) == ("replaying", attempt, attempt, "shop/code/1/0")
        flow.fail_again(comes_back(desk, flow, case), hash=f"b{attempt}")
    take_all(intake)
    (case,) = cases(desk)
    assert (case.state, case.attempts, case.ticket) == (CaseState.OPEN, 3, 2)
    assert outbox(desk) == [("reentry", 2, 1, None), ("reentry", 3, 2, None)]
    check_tallies(desk.database)


def test_through_lanes_of_growing_delays(desk: Runtime, flow: DeskFlow) -> None:
    declare(desk, Rule(repeat_after(exponential("1m", factor=2, times=2)), Match(code=8)))
    intake = intake_of(desk)
    flow.fail(1, 2)
    begun_at = to_datetime(desk.database.now())
    take_all(intake)
    first, _ = cases(desk)
    assert (first.state, first.lane) == (CaseState.WAITING, 0)
    assert first.due_at is not None
    # It is decided a moment before it is written down.
    minute = timedelta(minutes=1)
    assert begun_at + minute <= first.due_at <= first.taken_at + minute
    with desk.database.transaction() as tx:
        CaseStore(desk.database).move(tx, [first.id], CaseState.REPLAYING, who="towpath", why="due")
    flow.fail_again(comes_back(desk, flow, first))
    take_all(intake)
    first, second = cases(desk)
    assert (first.state, first.lane, first.attempts, first.ticket) == (CaseState.WAITING, 1, 2, 2)
    assert (second.state, second.lane) == (CaseState.WAITING, 0)
    assert rows(desk.database, "select partition, delay_ms from desk_lane order by partition") == [
        (0, 60_000),
        (1, 120_000),
    ]
    assert outbox(desk) == [("lane", 2, 1, 0), ("lane", 2, 1, 0), ("lane", 3, 2, 1)]


def test_ignored_by_an_approved_rule(desk: Runtime, flow: DeskFlow) -> None:
    declare(desk, Rule(ignore(approved_by="Ann Lee", until="2999-01-01"), Match(step="priced")))
    flow.fail(1)
    flow.fail(2, failure=NO_CITY._replace(step="shipped"))
    take_all(intake_of(desk))
    ignored, other = cases(desk)
    assert (ignored.state, ignored.settled_by, ignored.settled_why) == ("ignored", "Ann Lee", "by rule shop/code/1/0")
    assert other.state is CaseState.OPEN
    assert outbox(desk) == []


def test_salvaged_without_the_bad_field(desk: Runtime, flow: DeskFlow) -> None:
    declare(desk, Rule(salvage("city"), Match()))
    flow.fail(1, value=b'{"n": 1.0, "city": "?", "big": 12345678901234567890}')
    flow.fail(2, value=b'{"n": 2}', hash="b2")
    take_all(intake_of(desk))
    mended, other = cases(desk)
    assert (mended.state, mended.edit, other.state) == (CaseState.REPLAYING, 1, CaseState.OPEN)
    with desk.database.read() as tx:
        bodies = CaseStore(desk.database).bodies(tx, [mended.id])
        original = CaseStore(desk.database).originals(tx, [mended.id])
    assert bodies[mended.id].value == b'{"n": 1.0, "big": 12345678901234567890}'
    assert original[mended.id].value == b'{"n": 1.0, "city": "?", "big": 12345678901234567890}'
    assert b"city" in (dict(bodies[mended.id].headers)[CORRECTED] or b"")
    flow.fail_again(comes_back(desk, flow, mended))
    take_all(intake_of(desk))
    assert [case.state for case in cases(desk)] == [CaseState.OPEN, CaseState.OPEN]  # it is done once


# Records of a key in order


def fail_in_order(
    flow: DeskFlow, *offsets: int, key: bytes, failure: RecordFailure = NO_CITY, hash: str = "b0"
) -> None:
    """Error records of a flow that keeps the records of a key in order."""
    flow.fail(*offsets, key=key, failure=failure, hash=hash, order="key")


def test_records_of_a_key_wait_for_each_other(desk: Runtime, flow: DeskFlow) -> None:
    held = NO_CITY._replace(step="order", exception=KEY_HELD)
    fail_in_order(flow, 1, key=b"k")
    fail_in_order(flow, 2, key=b"k", failure=held)
    fail_in_order(flow, 3, key=b"other")
    fail_in_order(flow, 4, key=b"k", hash="b1")
    intake = intake_of(desk)
    take_all(intake)
    first, second, other, fourth = cases(desk)
    assert [case.state for case in (first, second, other, fourth)] == ["open", "parked", "open", "parked"]
    assert (second.behind, fourth.behind) == (first.id, second.id)
    with desk.database.transaction() as tx:
        CaseStore(desk.database).move(tx, [first.id], CaseState.REPLAYING, who="ann", why="again", ticket=True)
    flow.outcome(comes_back(desk, flow, first))
    take_all(intake)
    assert [case.state for case in cases(desk)] == ["resolved", "replaying", "open", "parked"]
    flow.outcome(comes_back(desk, flow, second))
    take_all(intake)
    assert [case.state for case in cases(desk)] == ["resolved", "resolved", "open", "replaying"]
    check_tallies(desk.database)


def test_what_waits_for_nobody_any_more_goes_on(desk: Runtime, flow: DeskFlow) -> None:
    fail_in_order(flow, 2, key=b"k", failure=NO_CITY._replace(step="order", exception=KEY_HELD))
    take_all(intake_of(desk))
    (case,) = cases(desk)
    assert (case.state, case.ticket) == (CaseState.REPLAYING, 1)
    assert outbox(desk) == [("reentry", 2, 1, None)]
