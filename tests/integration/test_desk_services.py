"""The way of an error through the whole desk: taken in, decided, sent into a lane, released, settled or given up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import CommandLine
from tests.support.desk import NO_CITY, DeskFlow, check_tallies
from tests.support.logs import everything

from towpath.desk.background import DeskPart
from towpath.desk.cases.model import Case, CaseSelection, CaseState
from towpath.desk.cases.store import CaseStore
from towpath.flow.records.reentry import ATTEMPT, said_by
from towpath.log.record import Record
from towpath.policy import Rule, constant, exponential, ignore, linear, repeat, repeat_after
from towpath.runtime import Runtime


@pytest.fixture
def desk(
    make_runtime: Callable[..., Runtime],
    database_settings: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Runtime:
    monkeypatch.chdir(tmp_path)
    is_embedded = database_settings["url"].startswith("sqlite")
    return make_runtime(log={"url": "embedded" if is_embedded else f"sqlite:///{tmp_path}/log.db"})


@pytest.fixture
def flow(desk: Runtime) -> DeskFlow:
    return DeskFlow(desk)


def work(desk: Runtime) -> None:
    """What `towpath desk run --until-idle` does."""
    services = desk.desk_services()
    try:
        services.run_until_idle(lambda: False)
    finally:
        assert services.stop(30) == []


def the_case(desk: Runtime) -> Case:
    with desk.database.read() as tx:
        [case] = CaseStore(desk.database).page(tx, CaseSelection(), 10)
    return case


def came_back(flow: DeskFlow) -> list[Record]:
    records = everything(flow.runtime.log, flow.topics.reentry)
    return sorted(records, key=lambda record: int(said_by(record.headers)[ATTEMPT]))


@pytest.mark.part("matrix")
@pytest.mark.parametrize(
    ("delays", "waits_s"),
    [
        (constant("5m", times=2), [300, 300]),
        (linear("5m", times=3), [300, 600, 900]),
        (exponential("1m", factor=2, times=3), [60, 120, 240]),
    ],
    ids=["constant", "linear", "exponential"],
)
def test_an_error_comes_back_after_each_wait_and_then_to_a_person(
    desk: Runtime, flow: DeskFlow, delays: Any, waits_s: list[float]
) -> None:
    desk.policies.declare("shop", None, [Rule.of(repeat_after(delays), step="priced")])
    flow.fail(17)
    work(desk)
    for number, wait_s in enumerate(waits_s, 1):
        case = the_case(desk)
        assert (case.state, case.attempts, case.rule) == (CaseState.WAITING, number, "shop/code/1/0")
        assert len(came_back(flow)) == number - 1, "not before its time"
        desk.database.shift_clock(wait_s + 1)
        work(desk)
        assert the_case(desk).state is CaseState.REPLAYING
        back = came_back(flow)
        assert [said_by(record.headers)[ATTEMPT] for record in back] == [str(n + 2) for n in range(number)]
        assert len({len(record.headers) for record in back}) == 1, "headers never pile up"
        flow.fail_again(back[-1], hash=f"b{number}")
        work(desk)
    case = the_case(desk)
    assert (case.state, case.attempts) == (CaseState.OPEN, len(waits_s) + 1)
    check_tallies(desk.database)


def test_a_replay_that_loads_settles_its_case(desk: Runtime, flow: DeskFlow) -> None:
    desk.policies.declare("shop", None, [Rule.of(repeat(2))])
    flow.fail(17)
    work(desk)
    [back] = came_back(flow)
    flow.outcome(back, "loaded")
    work(desk)
    assert the_case(desk).state is CaseState.RESOLVED


def test_after_the_last_repeat_an_approved_ignore(desk: Runtime, flow: DeskFlow) -> None:
    approved = ignore(approved_by="Ann Lee", until="2099-01-31")
    desk.policies.declare("shop", None, [Rule.of(repeat(1, then=approved))])
    flow.fail(17)
    work(desk)
    flow.fail_again(came_back(flow)[0])
    work(desk)
    case = the_case(desk)
    assert (case.state, case.settled_by) == (CaseState.IGNORED, "Ann Lee")


def test_a_rule_is_about_the_record(desk: Runtime, flow: DeskFlow) -> None:
    where = "value.country = 'DE' and message contains 'no city'"
    desk.policies.declare("shop", None, [Rule.of(repeat(1), code=int(NO_CITY.code), where=where)])
    flow.fail(1, value=b'{"country": "DE"}')
    flow.fail(2, value=b'{"country": "FR"}')
    flow.fail(3, value=b"broken")
    work(desk)
    assert [record.value for record in came_back(flow)] == [b'{"country": "DE"}']


def test_parts_run_apart_do_what_all_do_together(desk: Runtime) -> None:
    together = desk.desk_services().all
    apart = [service for part in DeskPart for service in desk.desk_services({part}).all]
    assert sorted(each.name for each in apart) == sorted(each.name for each in together)
    assert [each.name for each in desk.desk_services({DeskPart.REPLAYER, DeskPart.INTAKE}).all] == [
        desk.desk_services({part}).all[0].name for part in (DeskPart.INTAKE, DeskPart.REPLAYER)
    ]


@pytest.mark.usefixtures("variables")
def test_a_part_that_is_none_is_told(command: CommandLine) -> None:
    told = "intake, relay, replayer, jobs, notices, janitor"
    command("desk", "run", "--only", "everything").refused(2, "--only", told)
