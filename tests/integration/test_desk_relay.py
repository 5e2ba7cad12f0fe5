"""What leaves the desk: each row of the outbox is in its topic once."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.support.sent import STAGE, Sent

from towpath.core.events import EventKind
from towpath.desk.cases.model import CaseState
from towpath.desk.replay import outbox as sending_parts
from towpath.desk.replay.lane import DUE, lane_topic
from towpath.flow.records.reentry import ATTEMPT, CORRELATION, TICKET, first_reading, said_by
from towpath.flow.topics import FlowTopics
from towpath.testing.clock import wait_until


def test_a_replay_is_in_the_re_entry_topic_with_its_case(sent: Sent) -> None:
    [first, second] = sent.make(2, [b'{"n": 1}', b"\xff\x00"])
    assert sorted(sent.replay([first, second])) == sorted([first, second])
    assert sent.states() == {"replaying": 2}
    assert sent.run_relay() == 2
    assert sent.outbox() == 0
    assert sent.came_back() == sorted([(first, 2), (second, 2)])
    by_case = {said_by(record.headers)[CORRELATION]: record for record in sent.in_reentry()}
    assert by_case[first].value == b'{"n": 1}'
    assert by_case[second].value == b"\xff\x00"
    assert by_case[first].key == b"k0"
    reading = first_reading(said_by(by_case[second].headers))
    assert (reading.stage, reading.topic, reading.partition, reading.offset) == (STAGE, sent.source, 0, 1)
    assert ("own", b"x") in by_case[first].headers
    assert sent.run_relay() == 0


def test_headers_are_replaced_and_never_piled_up(sent: Sent) -> None:
    """A record that goes round and round stays as large as it was."""
    [case] = sent.make(1)
    sent.replay([case])
    sent.run_relay()
    names = [name for name, _ in sent.in_reentry()[0].headers]
    assert len(names) == len(set(names))


def test_a_lane_is_made_for_each_delay(sent: Sent) -> None:
    cases = sent.make(4)
    sent.replay(cases[:2], 60)
    sent.replay(cases[2:3], 300)
    sent.run_relay()
    sent.replay(cases[3:], 60)
    sent.run_relay()
    lanes = sent.in_lanes()
    assert [record.partition for record in lanes] == [0, 0, 0, 1]
    assert sent.runtime.log.topic(lane_topic(sent.flow)).partitions == 2
    assert sent.runtime.log.topic(lane_topic(sent.flow)).retention_s is None
    for record in lanes:
        said = said_by(record.headers)
        case = sent.read(said[CORRELATION])
        assert case.state is CaseState.WAITING
        assert case.lane == record.partition
        assert case.due_at is not None
        assert int(said[TICKET]) == case.ticket == 1
        assert int(said[ATTEMPT]) == 2
        assert timedelta(microseconds=int(said[DUE])) == case.due_at - case.due_at.fromtimestamp(0, case.due_at.tzinfo)


def test_what_was_called_back_before_it_was_sent_is_not_sent(sent: Sent) -> None:
    stays, goes = sent.make(2)
    sent.replay([stays, goes], 60)
    assert sent.recall([stays]) == [stays]
    sent.run_relay()
    assert [said_by(record.headers)[CORRELATION] for record in sent.in_lanes()] == [goes]
    assert sent.states() == {"open": 1, "waiting": 1}
    assert sent.outbox() == 0


def test_a_second_wish_takes_the_place_of_the_first(sent: Sent) -> None:
    [case] = sent.make(1)
    sent.replay([case], 60)
    sent.replay([case])
    sent.run_relay()
    assert sent.in_lanes() == []
    assert sent.came_back() == [(case, 2)]


def test_order_is_kept(sent: Sent) -> None:
    cases = sent.make(50)
    for case in cases:
        sent.replay([case], 60)
    sent.run_relay()
    assert [said_by(record.headers)[CORRELATION] for record in sent.in_lanes()] == cases


def test_a_resend_is_a_new_record_of_the_source_and_settles_the_case(sent: Sent) -> None:
    [case] = sent.make(1)
    assert sent.resend([case]) == [case]
    assert sent.read(case).state is CaseState.REPLAYING, "it is settled only when the log has it"
    sent.run_relay()
    [record] = sent.in_source()
    assert (record.key, record.value, record.headers) == (b"k0", b'{"n": 0}', (("own", b"x"),))
    found = sent.read(case)
    assert (found.state, found.settled_by, found.settled_why) == (CaseState.RESENT, "ann", "from the start")


def test_a_gap_has_nothing_to_send(sent: Sent) -> None:
    [gap] = sent.make(1, kind="gap", stop=9)
    assert sent.replay([gap]) == []
    assert sent.resend([gap]) == []
    assert sent.states() == {"open": 1}


@pytest.mark.parametrize("way", ["replay", "resend"])
def test_a_record_with_nowhere_to_go_is_in_front_of_a_person(sent: Sent, way: str) -> None:
    """And the others go their way: nobody is blocked by it."""
    gone, goes = sent.make(2)
    if way == "replay":
        sent.runtime.log.delete_topic(FlowTopics.of(sent.flow).reentry)
        sent.replay([gone])
        sent.resend([goes])
    else:
        sent.runtime.log.delete_topic(sent.source)
        sent.resend([gone])
        sent.replay([goes])
    sent.run_relay()
    case = sent.read(gone)
    assert case.state is CaseState.OPEN
    assert case.ticket == 2
    with sent.runtime.database.glance() as tx:
        [event] = sent.runtime.event_log.page(tx, limit=5, kind=EventKind.RECORDS_NOT_SENT)
    assert event.subject == sent.flow
    assert "is gone" in event.why
    assert event.data == {"cases": [gone], "count": 1}
    assert sent.outbox() == 0
    assert sent.read(goes).state is (CaseState.RESENT if way == "replay" else CaseState.REPLAYING)


def test_a_record_that_is_too_large_is_in_front_of_a_person(
    make_sent: Callable[..., Sent], log_settings: dict[str, object]
) -> None:
    log_settings["max_record_bytes"] = 10_000
    sent = make_sent()
    large, small = sent.make(2, [b"x" * 20_000, b"y"])
    sent.replay([large, small])
    sent.run_relay()
    assert sent.came_back() == [(small, 2)]
    assert sent.read(large).state is CaseState.OPEN
    with sent.runtime.database.glance() as tx:
        [event] = sent.runtime.event_log.page(tx, limit=5, kind=EventKind.RECORDS_NOT_SENT)
    assert "max_record_bytes" in event.why


def test_many_go_in_portions(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending_parts, "MOST_BYTES", 2_000)
    cases = sent.make(30)
    sent.replay(cases)
    assert sent.relay.run_once().done < 30
    sent.run_relay()
    assert sent.came_back() == sorted((case, 2) for case in cases)


def test_one_relay_sends_for_a_flow_and_another_takes_over(make_sent: Callable[..., Sent]) -> None:
    first, second = make_sent(), make_sent()
    cases = first.make(3)
    first.replay(cases[:1])
    assert first.run_relay() == 1
    first.replay(cases[1:2])
    assert second.run_relay() == 0, "the flow is the first one's"
    assert first.run_relay() == 1
    first.relay.on_stop()
    first.replay(cases[2:])
    assert second.run_relay() == 1
    assert first.came_back() == sorted((case, 2) for case in cases)


def test_one_that_was_fenced_gives_up(make_sent: Callable[..., Sent]) -> None:
    """Two that both think the flow is theirs do no harm: what the first has not committed, the second sends."""
    first, second = make_sent(), make_sent()
    cases = first.make(2)
    first.replay(cases[:1])
    first.run_relay()
    with first.runtime.database.transaction() as tx:
        first.parts.outbox.free(tx, [first.runtime.process().id])
    first.replay(cases[1:])
    assert second.run_relay() == 1
    assert first.relay.run_once().done == 0
    assert first.came_back() == sorted((case, 2) for case in cases)
    assert first.outbox() == 0


def test_it_wakes_when_something_is_to_be_sent(make_sent: Callable[..., Sent]) -> None:
    sent = make_sent(desk={"relay_s": 60.0})
    [case] = sent.make(1)
    sent.relay.start()
    try:
        sent.replay([case])
        wait_until(sent.came_back, 20, "the record in the re-entry topic")
    finally:
        sent.relay.stop()


@pytest.fixture
def small_topics(make_sent: Callable[..., Sent], log_settings: dict[str, object]) -> Sent:
    """Topics that take less than the settings say: they were made when those said something else."""
    log_settings["max_record_bytes"] = 10_000
    make_sent()
    log_settings["max_record_bytes"] = 1_000_000
    return make_sent()


@pytest.mark.parametrize("log_settings", ["kafka"], indirect=True)
def test_what_a_broker_refuses_is_searched_for(small_topics: Sent) -> None:
    """The others go their way: Kafka undoes a whole transaction for one record that it does not take."""
    sent = small_topics
    large = os.urandom(300_000)  # what repeats itself would be made smaller on the way
    cases = sent.make(6, [b"y", b"y", large, b"y", large, b"y"])
    sent.replay(cases)
    sent.run_relay()
    assert sent.came_back() == sorted((case, 2) for case in (cases[0], cases[1], cases[3], cases[5]))
    assert sent.states() == {"replaying": 4, "open": 2}
    with sent.runtime.database.glance() as tx:
        told = sent.runtime.event_log.page(tx, limit=5, kind=EventKind.RECORDS_NOT_SENT)
    assert sorted(each.data["cases"] for each in told) == sorted([[cases[2]], [cases[4]]])
