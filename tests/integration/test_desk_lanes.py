"""Lanes: what is due goes back to its stage, once, and not before its time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.sent import Sent

from towpath.core.clock import MICROS
from towpath.core.events import Event, EventKind
from towpath.desk.cases.model import CaseState
from towpath.desk.replay import replayer as lane_run
from towpath.desk.replay.lane import DUE, MOST_LANES, Lane
from towpath.errors import UnknownLane
from towpath.flow.records.reentry import TICKET
from towpath.flow.topics import FlowTopics
from towpath.log import NewRecord
from towpath.testing.clock import wait_until


@pytest.fixture(params=["strict", "all-due"])
def order(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture
def sent(make_sent: Callable[..., Sent], order: str) -> Sent:
    return make_sent(desk={"lane_order": order})


def waiting(sent: Sent, count: int, delay_s: float, **more: float) -> list[str]:
    cases = sent.make(count)
    sent.replay(cases, delay_s, **more)
    sent.run_relay()
    return cases


def test_nothing_goes_before_it_is_due_and_all_of_it_then(sent: Sent) -> None:
    cases = waiting(sent, 5, 3600)
    assert sent.run_replayer() == 0
    sent.shift(3500)
    assert sent.run_replayer() == 0
    assert sent.states() == {"waiting": 5}
    sent.shift(3601)
    assert sent.run_replayer() == 5
    assert sent.states() == {"replaying": 5}
    assert sent.came_back() == sorted((case, 2) for case in cases)
    assert sent.run_replayer() == 0
    names = {name for record in sent.in_reentry() for name, _ in record.headers}
    assert DUE not in names, "headers of the lane stay there"
    assert TICKET in names, "the ticket goes along: by it a record can still be called back"


def test_each_lane_has_its_own_time(sent: Sent) -> None:
    late, soon = waiting(sent, 1, 3600), waiting(sent, 1, 60)
    sent.shift(61)
    sent.run_replayer()
    assert sent.came_back() == [(soon[0], 2)]
    sent.shift(3601)
    sent.run_replayer()
    assert sent.came_back() == sorted([(soon[0], 2), (late[0], 2)])


def test_what_was_called_back_is_passed_over(sent: Sent) -> None:
    stays, goes, again = waiting(sent, 3, 60)
    sent.recall([stays])
    sent.recall([again])
    sent.replay([again], 60)
    sent.run_relay()
    sent.shift(61)
    assert sent.run_replayer() == 4, "two of them are passed over"
    assert sent.came_back() == sorted([(goes, 2), (again, 2)])
    assert sent.states() == {"open": 1, "replaying": 2}


def test_what_has_gone_cannot_be_called_back(sent: Sent) -> None:
    [case] = waiting(sent, 1, 60)
    sent.shift(61)
    sent.run_replayer()
    assert sent.recall([case]) == []
    assert sent.states() == {"replaying": 1}


def test_a_paused_lane_releases_nothing(sent: Sent) -> None:
    waiting(sent, 2, 60)
    lanes = sent.runtime.lanes
    assert lanes.pause(sent.flow, 0, who="ann", why="maintenance")
    assert not lanes.pause(sent.flow, 0, who="ann", why="maintenance")
    sent.shift(61)
    assert sent.run_replayer() == 0
    assert lanes.resume(sent.flow, 0, who="ann", why="done")
    assert sent.run_replayer() == 2
    with sent.runtime.database.glance() as tx:
        told = sent.runtime.event_log.page(tx, limit=5, kind=EventKind.LANE_CHANGED_BY_HAND)
    assert [(each.subject, each.who, each.data["what"]) for each in told] == [
        (f"{sent.flow}/0", "ann", "resume"),
        (f"{sent.flow}/0", "ann", "pause"),
    ]


def test_a_hurried_lane_releases_what_is_in_it_now(sent: Sent) -> None:
    before = waiting(sent, 2, 3600, jitter_s=60)
    assert sent.runtime.lanes.hurry(sent.flow, 0, who="ann", why="the shop is back") == 2
    sent.shift(1)
    later = waiting(sent, 1, 3600)
    assert sent.run_replayer() == 2
    assert sent.came_back() == sorted((case, 2) for case in before)
    assert sent.read(later[0]).state is CaseState.WAITING


def test_an_emptied_lane_is_in_front_of_persons(sent: Sent) -> None:
    cases = waiting(sent, 3, 60)
    assert sent.runtime.lanes.empty(sent.flow, 0, who="ann", why="the rule was wrong") == 3
    assert sent.states() == {"open": 3}
    assert sent.runtime.lanes.list(sent.flow)[0].crowd.cases == 0
    sent.shift(61)
    sent.run_replayer()
    assert sent.came_back() == []
    sent.replay(cases[:1])
    sent.run_relay()
    assert sent.came_back() == [(cases[0], 2)]


def test_an_unknown_lane_is_said_to_be_that(sent: Sent) -> None:
    with pytest.raises(UnknownLane) as caught:
        sent.runtime.lanes.pause(sent.flow, 7, who="ann", why="x")
    assert caught.value.partition == 7


def test_jitter_spreads_what_is_due_and_never_goes_before(sent: Sent, order: str) -> None:
    cases = waiting(sent, 160, 60, jitter_s=100)
    sent.shift(60.5)
    early = sent.run_replayer()
    assert early < 40
    sent.shift(110)
    sent.run_replayer()
    half = len(sent.came_back())
    assert early <= half <= 160
    if order == "all-due":
        assert 40 < half < 140
    sent.shift(161)
    sent.run_replayer()
    assert sent.came_back() == sorted((case, 2) for case in cases)


def put_in(sent: Sent, lane: int, due_in_s: float) -> str:
    """A record in a lane whose delay it does not have, as where there are more delays than lanes."""
    [case] = sent.make(1)
    due_at = sent.runtime.database.now() + round(due_in_s * MICROS)
    with sent.runtime.database.transaction() as tx:
        sent.cases.move(tx, [case], CaseState.WAITING, who="ann", why="again", ticket=True, lane=lane, due_at=due_at)
        sent.sends.enqueue(tx, sent.flow, [case])
    sent.run_relay()
    return case


def test_what_lies_behind_one_that_is_not_due(make_sent: Callable[..., Sent], order: str) -> None:
    """Strict waits for it; all due goes past it, and a successor knows what has gone."""
    sent, successor = make_sent(desk={"lane_order": order}), make_sent(desk={"lane_order": order})
    first = waiting(sent, 1, 60)
    blocks = put_in(sent, 0, 3600)
    behind = waiting(sent, 3, 60)
    sent.shift(61)
    sent.run_replayer()
    expected = [*first, *behind] if order == "all-due" else first
    assert sent.came_back() == sorted((case, 2) for case in expected)
    sent.replayer.on_stop()
    successor.run_replayer()
    assert sent.came_back() == sorted((case, 2) for case in expected)
    sent.shift(3601)
    successor.run_replayer()
    assert sent.came_back() == sorted((case, 2) for case in [*first, blocks, *behind])
    [view] = sent.runtime.lanes.list(sent.flow)
    assert view.lane.beyond.after == ()


def test_too_much_beyond_makes_all_due_strict(sent: Sent, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered stays small, however long the first has to wait."""
    monkeypatch.setattr(lane_run, "MOST_BEYOND", 3)
    monkeypatch.setattr(lane_run, "PORTION", 2)
    waiting(sent, 1, 60)
    blocks = put_in(sent, 0, 3600)
    behind = waiting(sent, 10, 60)
    sent.shift(61)
    sent.run_replayer()
    [view] = sent.runtime.lanes.list(sent.flow)
    assert len(view.lane.beyond.after) == (3 if order == "all-due" else 0)
    sent.shift(3601)
    sent.run_replayer()
    assert {case for case, _ in sent.came_back()} >= {blocks, *behind}


def test_a_successor_goes_on_where_the_first_was(make_sent: Callable[..., Sent], order: str) -> None:
    first, second = make_sent(desk={"lane_order": order}), make_sent(desk={"lane_order": order})
    cases = waiting(first, 10, 60)
    first.shift(50)
    cases += waiting(first, 10, 60)
    first.shift(70)
    first.run_replayer()
    gone = first.came_back()
    assert len(gone) == 10
    assert second.run_replayer() == 0, "the lane is the first one's"
    first.replayer.on_stop()
    assert second.run_replayer() == 0
    assert first.came_back() == gone
    first.shift(111)
    second.run_replayer()
    assert first.came_back() == sorted((case, 2) for case in cases)


def test_one_that_was_fenced_gives_up(make_sent: Callable[..., Sent], order: str) -> None:
    first, second = make_sent(desk={"lane_order": order}), make_sent(desk={"lane_order": order})
    cases = waiting(first, 4, 60)
    first.run_replayer()
    with first.runtime.database.transaction() as tx:
        first.parts.lanes.free(tx, [first.runtime.process().id])
    first.shift(61)
    assert second.run_replayer() == 4
    assert first.replayer.run_once().done == 0
    assert first.came_back() == sorted((case, 2) for case in cases)


def test_replayers_share_the_lanes(make_sent: Callable[..., Sent], order: str) -> None:
    first, second = make_sent(desk={"lane_order": order}), make_sent(desk={"lane_order": order})
    for delay_s in (60, 120, 180, 240):
        waiting(first, 1, delay_s)
    first.run_replayer()
    assert len(first.replayer.lanes) == 4
    for _ in range(8):
        second.replayer.run_once()
        first.replayer.run_once()
    assert len(first.replayer.lanes) == len(second.replayer.lanes) == 2
    assert not {*first.replayer.lanes} & {*second.replayer.lanes}
    first.shift(241)
    first.run_replayer()
    second.run_replayer()
    assert len(first.came_back()) == 4


def test_too_many_delays_share_lanes(sent: Sent) -> None:
    with sent.runtime.database.transaction() as tx:
        lanes = [sent.sends.lane(tx, sent.flow, delay) for delay in range(1, MOST_LANES + 6)]
    assert lanes[:MOST_LANES] == list(range(MOST_LANES))
    assert {*lanes[MOST_LANES:]} == {MOST_LANES - 1}, "the longest that there is"
    with sent.runtime.database.transaction() as tx:
        assert sent.sends.lane(tx, sent.flow, 0.5) == 0, "the shortest that is not shorter"


def test_a_flow_that_is_gone_brings_its_cases_back_to_persons(sent: Sent) -> None:
    waiting(sent, 2, 60)
    sent.runtime.log.delete_topic(FlowTopics.of(sent.flow).reentry)
    sent.shift(61)
    sent.run_replayer()
    assert sent.states() == {"open": 2}
    with sent.runtime.database.glance() as tx:
        [event] = sent.runtime.event_log.page(tx, limit=5, kind=EventKind.RECORDS_NOT_SENT)
    assert "is gone" in event.why


def test_what_somebody_has_put_into_the_topic_by_hand_is_passed_over(sent: Sent) -> None:
    first = waiting(sent, 1, 60)
    sent.runtime.log.append(f"{sent.flow}.lanes", [NewRecord(b"?", partition=0)])
    second = waiting(sent, 1, 60)
    sent.shift(61)
    sent.run_replayer()
    assert sent.came_back() == sorted([(first[0], 2), (second[0], 2)])


def test_a_lane_that_fails_does_not_hold_up_the_others(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(sent, 1, 60)
    cases = waiting(sent, 1, 120)
    real = lane_run.LaneRun.step

    def step(self: lane_run.LaneRun, lane: Lane, end: int, now: int) -> int:
        if lane.partition == 0:
            raise OSError("out of order")
        return real(self, lane, end, now)

    monkeypatch.setattr(lane_run.LaneRun, "step", step)
    sent.shift(121)
    with pytest.raises(OSError, match="out of order"):
        sent.replayer.run_once()
    sent.settle()
    assert sent.came_back() == [(cases[0], 2)]


def test_a_due_record_goes_soon(sent: Sent) -> None:
    """By a running service, which looks by itself."""
    told: list[Event] = []
    sent.runtime.events.subscribe(told.append)
    sent.relay.start()
    sent.replayer.start()
    try:
        cases = sent.make(1)
        sent.replay(cases, 0.5)
        wait_until(sent.came_back, 20, "the record in the re-entry topic")
        due_at = sent.read(cases[0]).moved_at
        assert due_at is not None
        wait_until(lambda: [each for each in told if each.kind is EventKind.LANE_RELEASED], 10, "the event")
    finally:
        sent.replayer.stop()
        sent.relay.stop()


def test_a_log_that_has_forgotten_is_reminded_by_the_row(make_sent: Callable[..., Sent], order: str) -> None:
    """As Kafka does after some days in which nobody has moved a position."""
    first, second = make_sent(desk={"lane_order": order}), make_sent(desk={"lane_order": order})
    cases = waiting(first, 2, 60)
    first.shift(61)
    first.run_replayer()
    cases += waiting(first, 2, 60)
    first.shift(122)
    first.run_replayer()
    first.replayer.on_stop()
    for group in (lane_run.lanes_group(first.flow), lane_run.releases_group(first.flow)):
        first.runtime.log.forget_group(group)
    assert second.run_replayer() == 0
    cases += waiting(first, 1, 60)
    first.shift(183)
    assert second.run_replayer() == 1
    assert first.came_back() == sorted((case, 2) for case in cases)


def test_positions_are_told_again_so_that_a_log_does_not_forget_them(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(sent, 2, 60)
    sent.shift(61)
    sent.run_replayer()
    monkeypatch.setattr(lane_run, "REMIND_S", 0.0)
    group = lane_run.lanes_group(sent.flow)
    before = sent.runtime.log.positions(group)
    sent.runtime.log.commit_positions(group, dict.fromkeys(before, 0))
    sent.run_replayer()
    wait_until(lambda: sent.runtime.log.positions(group) == before, what="the position as it was")
