"""Relay and replayer die by SIGKILL at every point; a fresh process goes on: nothing is lost, none is sent twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.leases import LONG_LEASE
from tests.support.sent import Sent
from tests.support.tables import rows

from towpath.core.clock import MICROS
from towpath.core.crash import CrashPoint
from towpath.desk.cases.model import CaseState
from towpath.desk.replay.lane import Lane, ReleasedAbove
from towpath.desk.replay.replayer import lanes_group, releases_group
from towpath.flow.records.reentry import CORRELATION, said_by
from towpath.testing.processes import ChildProcess

ROOT = Path(__file__).parents[2]
LARGE = 20_000  # bytes of a body that no topic takes

RELAY = {
    CrashPoint.RELAY_OPENED: (1,),
    CrashPoint.RELAY_REFUSED: (1,),
    CrashPoint.RELAY_SENT: (1, 3),
    CrashPoint.RELAY_BEFORE_COMMIT: (1, 3),
    CrashPoint.RELAY_AFTER_COMMIT: (2,),
}
LANE = {
    CrashPoint.LANE_CLAIMED: (1,),
    CrashPoint.LANE_OPENED: (1,),
    CrashPoint.LANE_BEFORE_COMMIT: (1, 2),
    CrashPoint.LANE_AFTER_COMMIT: (1, 2),
    CrashPoint.LANE_RELEASED: (1, 2),
}
# Within transactions of the log, the relay's and the lane's: the outbox takes eight, so the tenth is a release.
LOG = {
    CrashPoint.LOG_TRANSACTION_FILLED: (2, 10),
    CrashPoint.LOG_TRANSACTION_BEFORE_COMMIT: (2, 10),
    CrashPoint.LOG_TRANSACTION_AFTER_COMMIT: (2, 10),
}
SENDING_POINTS = frozenset({*RELAY, *LANE})


@dataclass
class Expected:
    """What must be everywhere in the end."""

    back: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    lanes: set[str] = field(default_factory=set)
    resent: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)


def prepare(sent: Sent) -> Expected:
    """Rows of every kind in the outbox, and in one lane a record that is not due between some that are."""
    direct, lane, resent = sent.make(6), sent.make(12), sent.make(4)
    [late] = sent.make(1)
    refused = sent.make(2, [b"x" * LARGE] * 2)
    called_back = sent.make(2)
    sent.replay(direct[:3])
    sent.replay(lane[:3], 0)
    due_at = sent.runtime.database.now() + 3600 * MICROS
    with sent.runtime.database.transaction() as tx:
        sent.cases.move(tx, [late], CaseState.WAITING, who="ann", why="later", ticket=True, lane=0, due_at=due_at)
        sent.sends.enqueue(tx, sent.flow, [late])
    sent.replay(refused)
    sent.resend(resent)
    sent.replay([*lane[3:], *called_back], 0)
    sent.replay(direct[3:])
    sent.recall(called_back)
    return Expected({*direct, *lane}, {late}, {*lane, late}, {*resent}, {*refused, *called_back})


def check(sent: Sent, expected: Expected, order: str) -> None:
    back = expected.back
    if order == "strict":  # what lies behind the one that is not due waits for it
        before = [each["id"] for each in rows(sent.runtime.database, "desk_case") if each["state"] == "waiting"]
        back = back - {*before}
        assert {*before} - expected.waiting == {*sorted(expected.lanes - expected.waiting)[3:]}
    else:
        assert {id for id in states_of(sent) if states_of(sent)[id] == "waiting"} == expected.waiting
    assert sent.came_back() == sorted((case, 2) for case in back), "each is in the re-entry topic once"
    in_lanes = Counter(said_by(record.headers)[CORRELATION] for record in sent.in_lanes())
    assert in_lanes == Counter(dict.fromkeys(expected.lanes, 1)), "and in its lane once"
    assert Counter(record.value for record in sent.in_source()) == Counter(map(sent.body, expected.resent))
    for record in sent.in_reentry():
        case = said_by(record.headers)[CORRELATION]
        assert (record.value, record.key) == (sent.body(case), sent.read(case).key)
    assert {id for id, state in states_of(sent).items() if state == "resent"} == expected.resent
    assert {id for id, state in states_of(sent).items() if state == "open"} == expected.refused
    assert rows(sent.runtime.database, "desk_outbox") == []
    check_tables(sent)


def states_of(sent: Sent) -> dict[str, str]:
    return {str(row["id"]): row["state"] for row in rows(sent.runtime.database, "desk_case")}


def check_tables(sent: Sent) -> None:
    """Tallies are what the rows are, nothing was done to a case twice, and the lane's row is what the log says."""
    database = sent.runtime.database
    cases = rows(database, "desk_case")
    tallies = Counter({(row["group_id"], row["state"]): row["cases"] for row in rows(database, "desk_tally")})
    assert +tallies == Counter((row["group_id"], row["state"]) for row in cases)
    done = Counter((row["case_id"], row["what"]) for row in rows(database, "desk_history"))
    assert not {what for what, count in done.items() if count > 1}
    with database.glance() as tx:
        [lane] = sent.parts.lanes.of_flow(tx, sent.flow)
    assert lane.owner is None
    assert standing(lane) == in_log(sent, lane)


def standing(lane: Lane) -> tuple[int, int]:
    return lane.position, lane.release


def in_log(sent: Sent, lane: Lane) -> tuple[int, int]:
    place = (lane.topic, lane.partition)
    log = sent.runtime.log
    return log.positions(lanes_group(lane.flow))[place], log.positions(releases_group(lane.flow))[place]


@pytest.fixture
def kill_and_recover(
    make_sent: Callable[..., Sent],
    database_settings: dict[str, Any],
    log_settings: dict[str, Any],
    tmp_path: Path,
) -> Callable[[str, str], None]:
    def go(crash_at: str, order: str) -> None:
        log_settings["max_record_bytes"] = LARGE // 2
        sent = make_sent(desk={"lane_order": order})
        expected = prepare(sent)
        sections = {
            "database": database_settings,
            "log": log_settings,
            "desk": {"lane_order": order, "directory": str(tmp_path / "desk")},
            "process": LONG_LEASE,  # the kernel tells who is dead
            "queue": {"caretaker_s": 0.1},
        }
        told = {"sections": sections, "flow": sent.flow}
        module = "tests.recovery.sending_acts"
        with ChildProcess(module, told, log=tmp_path / "log", crash_at=crash_at, cwd=ROOT) as child:
            child.wait_killed()
        with ChildProcess(module, told, log=tmp_path / "log", cwd=ROOT) as child:
            child.wait_done()
        check(sent, expected, order)

    return go


def at(points: Mapping[CrashPoint, tuple[int, ...]]) -> list[str]:
    return [f"{point}:{passes}" for point, times in points.items() for passes in times]


@pytest.mark.parametrize("crash_at", at(RELAY) + at(LANE) + at(LOG))
def test_all_due_survives_kill_at(crash_at: str, kill_and_recover: Callable[[str, str], None]) -> None:
    """Without the number of the release in the log, what went beyond the safe position would go twice or never."""
    kill_and_recover(crash_at, "all-due")


@pytest.mark.parametrize("crash_at", at({point: LANE[point][:1] for point in LANE}))
def test_strict_survives_kill_at(crash_at: str, kill_and_recover: Callable[[str, str], None]) -> None:
    kill_and_recover(crash_at, "strict")


def test_nothing_is_remembered_that_is_not_needed() -> None:
    assert ReleasedAbove.from_json(ReleasedAbove((1, 2), (3,)).to_json()) == ReleasedAbove((1, 2), (3,))
