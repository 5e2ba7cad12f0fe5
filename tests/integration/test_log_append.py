"""Both logs: what is appended is what is read, in its order, at the place that was said."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable

import pytest
from tests.support.logs import everything, new, values

from towpath.errors import BadRecord, UnknownPartition
from towpath.log import Log, NewRecord
from towpath.log.record import partition_of

ODD = [
    NewRecord(b"plain"),
    NewRecord(b"", key=b""),
    NewRecord(None, key=b"tombstone"),
    NewRecord(b"\x00\xff\xfe", key=b"\xff\x00"),
    NewRecord(
        b"with headers", headers=(("a", b"1"), ("a", b"2"), ("none", None), ("empty", b""), ("raw", b"\xff\x00"))
    ),
    NewRecord("naïve".encode(), headers=(("text", "ünïcode".encode()),)),
    NewRecord(b"dated", timestamp_ms=1_000_000_000_123),
    NewRecord(b"chosen", key=b"k", partition=1),
    NewRecord(b"x" * 100_000),
]


def test_records_are_read_as_they_were_appended(log: Log, name: str) -> None:
    log.create_topic(name, 3)
    before_ms = int(time.time() * 1000) - 1
    places = log.append(name, ODD)
    assert len(places) == len(ODD)
    found = {(record.partition, record.offset): record for record in everything(log, name)}
    assert len(found) == len(ODD)
    for wanted, place in zip(ODD, places, strict=True):
        read = found[place]
        assert (read.topic, read.key, read.value, read.headers) == (name, wanted.key, wanted.value, wanted.headers)
        if wanted.timestamp_ms is not None:
            assert read.timestamp_ms == wanted.timestamp_ms
        else:
            assert before_ms <= read.timestamp_ms <= time.time() * 1000 + 1
        if wanted.partition is not None:
            assert read.partition == wanted.partition


def test_same_key_goes_where_java_clients_put_it(log: Log, name: str) -> None:
    log.create_topic(name, 7)
    keys = [b"", b"21", b"foobar", b"abc", b"\xff\x00", *(b"key-%d" % n for n in range(200))]
    places = log.append(name, [NewRecord(b"v", key=key) for key in keys])
    assert [partition for partition, _ in places] == [partition_of(key, 7) for key in keys]


def test_records_without_a_key_go_round(log: Log, name: str) -> None:
    log.create_topic(name, 4)
    for _ in range(10):
        log.append(name, new(b"a", b"b"))
    assert log.ends(name) == {0: 5, 1: 5, 2: 5, 3: 5}


def test_order_of_a_partition_is_the_order_of_the_batch(log: Log, name: str) -> None:
    log.create_topic(name, 3)
    count = 25_000  # more than goes into one transaction of SQLite
    places = log.append(name, [NewRecord(b"%d" % n, key=b"%d" % (n % 50)) for n in range(count)])
    read = everything(log, name)
    assert len(read) == len(set(places)) == count
    by_partition = defaultdict(list)
    for record in read:
        by_partition[record.partition].append(int(record.value or b""))
    assert all(numbers == sorted(numbers) for numbers in by_partition.values())


def test_nothing_is_appended_by_an_empty_batch(log: Log, name: str) -> None:
    log.create_topic(name, 1)
    assert log.append(name, []) == []
    assert log.ends(name) == {0: 0}


def test_batch_with_a_bad_record_is_refused_whole(make_log: Callable[..., Log], name: str) -> None:
    log = make_log(max_record_bytes=2000)
    log.create_topic(name, 1)
    for bad in (
        NewRecord(b"x" * 2000),
        NewRecord(b"x", headers=(("ä", b""),)),
        NewRecord(b"x", timestamp_ms=0),
        NewRecord(b"x", partition=1),
    ):
        with pytest.raises((BadRecord, UnknownPartition)):
            log.append(name, [*new(b"good"), bad, *new(b"good")])
    assert log.ends(name) == {0: 0}
    log.append(name, [NewRecord(b"x" * 1900)])
    assert values(log, name) == [b"x" * 1900]


def test_largest_record_of_the_default_settings_fits(log: Log, name: str) -> None:
    log.create_topic(name, 1)
    largest = bytes((4 << 20) - 64)
    log.append(name, [NewRecord(largest)] * 3)
    assert values(log, name) == [largest] * 3
    with pytest.raises(BadRecord, match="max_record_bytes"):
        log.append(name, [NewRecord(largest + b"x")])


def test_two_appenders_at_once_lose_and_double_nothing(make_log: Callable[..., Log], name: str) -> None:
    logs = [make_log() for _ in range(3)]
    logs[0].create_topic(name, 2)

    def fill(who: int) -> None:
        for batch in range(20):
            logs[who].append(name, [NewRecord(b"%d/%d/%d" % (who, batch, n), key=b"%d" % n) for n in range(50)])

    threads = [threading.Thread(target=fill, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {b"%d/%d/%d" % (who, batch, n) for who in range(3) for batch in range(20) for n in range(50)}
    found = values(logs[0], name)
    assert len(found) == len(expected)
    assert set(found) == expected


def test_one_log_can_be_used_by_several_threads(log: Log, name: str) -> None:
    log.create_topic(name, 2)
    threads = [threading.Thread(target=lambda: [log.append(name, new(b"v")) for _ in range(30)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values(log, name) == [b"v"] * 120
