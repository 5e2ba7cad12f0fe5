"""A stuck lane and a growing desk are told to people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from tests.support.tables import by_hand, events

from towpath.desk.background import DeskWatch
from towpath.runtime import Runtime

S = 1_000_000


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime]) -> Runtime:
    return make_runtime(notify={"lane_stuck_s": 3600, "growing_cases": 3, "growing_s": 100, "repeat_s": 3600})


def watch(runtime: Runtime) -> DeskWatch:
    return DeskWatch(runtime.database, runtime.notify.notices, runtime.settings.notify, runtime.events)


def insert(runtime: Runtime, table: str, **values: Any) -> None:
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    by_hand(runtime.database, f"insert into {table} ({names}) values ({marks})", **values)


def case(runtime: Runtime, taken_us: int, state: str = "open", **more: Any) -> None:
    values = {
        "id": str(uuid4()), "flow": "shop", "stage": "main", "kind": "error", "group_id": 1, "state": state,
        "code": 1, "step": "s", "exception": "E", "message": "m", "topic": "t", "topic_id": "i", "partition": 0,
        "start_offset": 1, "hash": "h", "error_topic": "e", "error_partition": 0, "error_offset": 1,
        "body_bytes": 0, "first_failed_at": taken_us, "failed_at": taken_us, "taken_at": taken_us,
        "moved_at": taken_us, "fingerprint": "f", **more,
    }  # fmt: skip
    insert(runtime, "desk_case", **values)


@pytest.fixture
def now(runtime: Runtime) -> int:
    now = runtime.database.now()
    by_hand(
        runtime.database,
        "insert into desk_group (flow, code, step, exception, title, state, first_at, last_at, moved_at) "
        "values ('shop', 1, 's', 'E', 't', 'new', 1, 1, 1)",
    )
    return now


def lane(runtime: Runtime, partition: int, is_paused: int = 0) -> None:
    delay = (partition + 1) * 1000
    insert(runtime, "desk_lane", flow="shop", partition=partition, delay_ms=delay, is_paused=is_paused, made_at=1)


def test_nothing_is_told_of_a_desk_that_works(runtime: Runtime, now: int) -> None:
    lane(runtime, 0)
    case(runtime, now, "waiting", lane=0, due_at=now - 3540 * S)
    case(runtime, now, "waiting", lane=0, due_at=now + 100 * S)
    case(runtime, now)
    case(runtime, now)
    assert watch(runtime).look() == 0


def test_a_lane_that_is_stuck_is_told_once(runtime: Runtime, now: int) -> None:
    lane(runtime, 0)
    lane(runtime, 1)
    lane(runtime, 2, is_paused=1)  # somebody wants that
    for number in range(3):
        case(runtime, now, "waiting", lane=number, due_at=now - (3601 if number != 1 else 1800) * S)
    assert watch(runtime).look() == 1
    assert watch(runtime).look() == 1
    [notice] = runtime.notify.page()
    assert (notice.kind, notice.subject, notice.times) == ("lane_stuck", "shop/0", 2)
    assert len(events(runtime.database, "lane_stuck")) == 1


def test_a_flow_that_fills_the_desk(runtime: Runtime, now: int) -> None:
    case(runtime, now - 101 * S)
    case(runtime, now)
    case(runtime, now)
    case(runtime, now, "abandoned", settled_at=now, settled_by="ann", settled_why="x")
    assert watch(runtime).look() == 0
    case(runtime, now)
    assert watch(runtime).look() == 1
    [notice] = runtime.notify.page()
    assert (notice.kind, notice.subject, notice.data) == ("desk_growing", "shop", {"flow": "shop", "cases": 3})
