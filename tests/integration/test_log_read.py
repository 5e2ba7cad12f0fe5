"""Both logs: ranges, single records, times, deletion; offsets that are not dense."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest
from tests.support.logs import everything, new, values, wait_for_values
from tests.support.sweep import sweep

from towpath.errors import BadValue, LogError, OffsetOutOfRange
from towpath.log import Log, NewRecord


@pytest.fixture
def holed(log: Log, name: str) -> str:
    """A topic with aborted and committed transactions, plain and deleted records; on Kafka its offsets have holes."""
    log.create_topic(name, 1)
    log.append(name, new(b"deleted-1", b"deleted-2", b"plain-1"))
    producer = log.producer(name)
    with producer.transaction() as tx:
        tx.append(name, new(b"committed-1", b"committed-2"))
    with pytest.raises(KeyError), producer.transaction() as tx:
        tx.append(name, new(b"aborted-1", b"aborted-2"))
        raise KeyError
    log.append(name, new(b"plain-2"))
    with producer.transaction() as tx:
        tx.append(name, new(b"committed-3"))
    producer.close()
    log.delete_before(name, {0: 2})
    wait_for_values(log, name, b"plain-1", b"committed-1", b"committed-2", b"plain-2", b"committed-3")
    return name


KEPT = [b"plain-1", b"committed-1", b"committed-2", b"plain-2", b"committed-3"]


def test_only_committed_records_are_read_and_offsets_increase(log: Log, holed: str) -> None:
    read = everything(log, holed)
    assert [record.value for record in read] == KEPT
    offsets = [record.offset for record in read]
    assert offsets == sorted(set(offsets))
    assert log.starts(holed) == {0: 2}
    assert log.ends(holed)[0] > offsets[-1]


def test_every_range_holds_what_lies_in_it(log: Log, holed: str) -> None:
    read = everything(log, holed)
    end = log.ends(holed)[0]
    for start in range(2, end + 1):
        for stop in range(start, end + 2):
            expected = [record for record in read if start <= record.offset < stop]
            assert list(log.read(holed, 0, start, stop)) == expected


def test_single_record_is_found_by_its_offset_and_a_hole_holds_nothing(log: Log, holed: str) -> None:
    read = {record.offset: record for record in everything(log, holed)}
    for offset in range(2, log.ends(holed)[0]):
        assert log.record(holed, 0, offset) == read.get(offset)


@sweep("offset", [-1, 0, 1, 10_000])
def test_offset_out_of_range_is_an_error(offset: int, log: Log, holed: str) -> None:
    end = log.ends(holed)[0]
    for act in (lambda: log.read(holed, 0, offset), lambda: log.record(holed, 0, offset)):
        with pytest.raises(OffsetOutOfRange) as refused:
            act()
        assert (refused.value.start, refused.value.end, refused.value.offset) == (2, end, offset)


def test_end_can_be_read_from_but_holds_no_record(log: Log, holed: str) -> None:
    end = log.ends(holed)[0]
    assert list(log.read(holed, 0, end)) == []
    with pytest.raises(OffsetOutOfRange):
        log.record(holed, 0, end)


def test_reader_may_stop_in_the_middle(log: Log, name: str) -> None:
    log.create_topic(name, 1)
    log.append(name, new(*(b"%d" % n for n in range(5000))))
    for _ in range(3):
        assert [record.value for record in islice(log.read(name, 0, 10), 3)] == [b"10", b"11", b"12"]
    assert len(values(log, name)) == 5000


def test_reader_sees_what_was_there_when_it_began(log: Log, name: str) -> None:
    log.create_topic(name, 1)
    log.append(name, new(b"1", b"2"))
    reading = log.read(name, 0, 0)
    log.append(name, new(b"3"))
    assert [record.value for record in reading] == [b"1", b"2"]


def test_topic_replaced_under_a_reader_is_noticed(
    log: Log, make_log: Callable[..., Log], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a topic must not be taken for a whole one, nor another topic's records for its own."""
    monkeypatch.setattr("towpath.log.sqlite.store.MOST_RECORDS", 100)
    monkeypatch.setattr("towpath.log.kafka.log.AT_ONCE", 1)
    log.create_topic(name, 1)
    log.append(name, new(*[bytes(20_000)] * 2000))
    reading = log.read(name, 0, 50)
    assert next(reading).offset == 50
    other = make_log()
    other.delete_topic(name)
    other.create_topic(name, 1)
    other.append(name, new(b"of another topic"))
    with pytest.raises(LogError):
        offsets = [record.offset for record in reading if record.value == bytes(20_000)]
        assert offsets == list(range(51, 2000))
        raise LogError("all had been fetched before")


def test_large_records_are_read_in_portions(make_log: Callable[..., Log], name: str) -> None:
    log = make_log()
    log.create_topic(name, 1)
    sizes = [3 << 20, 10, 3 << 20, 3 << 20, 5, 1 << 20]
    log.append(name, new(*(bytes(size) for size in sizes)))
    assert [len(record.value or b"") for record in log.read(name, 0, 0)] == sizes


def test_offset_for_a_time_is_the_first_that_is_not_older(log: Log, name: str) -> None:
    log.create_topic(name, 2)
    times = [1_000_000, 2_000_000, 3_000_000, 4_000_000]
    log.append(name, [NewRecord(b"v", timestamp_ms=at, partition=0) for at in times])
    assert [log.offsets_at(name, at)[0] for at in (0, 1_000_000, 1_000_001, 4_000_000, 4_000_001)] == [0, 0, 1, 3, 4]
    assert log.offsets_at(name, 0) == {0: 0, 1: 0}
    with pytest.raises(BadValue):
        log.offsets_at(name, -1)


def test_offset_for_a_time_is_the_first_one_also_when_times_go_back(log: Log, name: str) -> None:
    log.create_topic(name, 1)
    log.append(name, [NewRecord(b"v", timestamp_ms=at) for at in (5_000_000, 1_000_000, 9_000_000, 2_000_000)])
    assert log.offsets_at(name, 6_000_000) == {0: 2}


def test_deleted_records_are_gone_and_offsets_go_on(log: Log, name: str) -> None:
    log.create_topic(name, 2)
    log.append(name, [NewRecord(b"%d" % n, partition=n % 2) for n in range(10)])
    log.delete_before(name, {0: 3, 1: 5})
    assert log.starts(name) == {0: 3, 1: 5}
    assert values(log, name) == [b"6", b"8"]
    log.delete_before(name, {0: 1})  # below the start: nothing to do
    assert log.starts(name) == {0: 3, 1: 5}
    assert log.append(name, [NewRecord(b"new", partition=1)]) == [(1, 5)]


@pytest.mark.parametrize("offset", [-1, 4])
def test_deletion_beyond_the_end_is_refused(offset: int, log: Log, name: str) -> None:
    log.create_topic(name, 1)
    log.append(name, new(b"1", b"2", b"3"))
    with pytest.raises(OffsetOutOfRange):
        log.delete_before(name, {0: offset})
    assert log.starts(name) == {0: 0}
