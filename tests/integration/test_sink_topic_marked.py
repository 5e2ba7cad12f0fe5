"""The topic sink of flows that are exactly-once, on both logs: repeats, refusals, parts, and what others write."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.logs import Place as LogPlace
from tests.support.logs import everything
from tests.support.marked import Bench

from towpath.errors import NeedsPerson, SinkError
from towpath.flow.delivery.ids import DeliveryIds, Strategy
from towpath.flow.delivery.marks import Mark, MarkTopic
from towpath.flow.delivery.splitter import PartLimits
from towpath.flow.failures import ErrorCode
from towpath.flow.sinks import sink as kept
from towpath.flow.sinks.registry import open_reader
from towpath.flow.sinks.topic.logs import kept_logs, opened
from towpath.flow.sinks.topic.reader import TopicReader
from towpath.flow.sinks.topic.sink import TopicSink
from towpath.flow.topics import FlowTopics
from towpath.log import Log, NewRecord
from towpath.settings import Settings
from towpath.testing.clock import wait_until


@pytest.fixture
def bench(log: Log, place: LogPlace, name: str) -> Bench:
    settings = Settings(database=place.database, log={"max_record_bytes": 5_000, **place.log})
    return Bench(log, settings, name)


@pytest.fixture(autouse=True)
def _no_kept_logs() -> object:
    yield
    kept_logs.close()


@pytest.fixture
def three_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are small on both logs."""
    monkeypatch.setattr("towpath.flow.sinks.topic.writer.limits_of", lambda log: PartLimits(3, 1 << 20))


def test_a_repeat_writes_nothing(bench: Bench) -> None:
    for _ in range(3):
        assert bench.write(bench.deliveries(1, 2), bench.deliveries(3, 4, 5)) == []
    bench.wait_for([1, 2, 3, 4, 5], {bench.mark()})
    records = {record.value: record for record in everything(bench.log, bench.target)}
    record = records[b'{"n":1}']
    assert (record.key, record.timestamp_ms) == (b"1", 1_700_000_000_000)
    assert dict(record.headers) == {
        "towpath.delivery": bench.deliveries(1).delivery_ids[0].hex().encode(),
        "towpath.origin": b"orders:0:0:1",
    }


def test_without_a_look_at_the_marks_a_repeat_doubles(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: the test above can fail."""
    monkeypatch.setattr(MarkTopic, "parts", lambda *_: {})
    for _ in range(2):
        bench.write(bench.deliveries(1, 2))
    bench.wait_for([1, 1, 2, 2], {bench.mark()})


def test_units_batches_and_empty_units_have_marks_of_their_own(bench: Bench) -> None:
    bench.write(bench.deliveries(1))
    bench.write(bench.deliveries(2), unit="orders/1")
    bench.write(bench.deliveries(3), batch_id=4)
    bench.write(unit="orders/2")  # nothing came
    mark = bench.mark()
    bench.wait_for(
        [1, 2, 3], {mark, mark._replace(unit="orders/1"), mark._replace(batch_id=4), mark._replace(unit="orders/2")}
    )


@pytest.mark.usefixtures("three_a_part")
def test_parts_are_cut_alike_however_they_are_handed_over(bench: Bench) -> None:
    """The first attempt ends after two parts; the second gets the same in other pieces, and goes on."""
    with bench.writer() as writer:
        writer.write(bench.deliveries(1, 2, 3, 4))
        writer.write(bench.deliveries(5, 6, 7, 8))
    bench.wait_for([1, 2, 3, 4, 5, 6], {bench.mark(0), bench.mark(1)})
    bench.write(bench.deliveries(1), bench.deliveries(2, 3, 4, 5, 6, 7), bench.deliveries(8, 9, 10))
    bench.wait_for(range(1, 11), {bench.mark(part) for part in range(4)})


@pytest.mark.usefixtures("three_a_part")
def test_parts_that_are_there_count_as_they_were_cut(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of Towpath may cut elsewhere: nothing is lost or doubled by that."""
    with bench.writer() as writer:
        writer.write(bench.deliveries(1, 2, 3, 4))
    monkeypatch.setattr("towpath.flow.sinks.topic.writer.limits_of", lambda log: PartLimits(2, 1 << 20))
    bench.write(bench.deliveries(1, 2, 3, 4, 5, 6))
    bench.wait_for([1, 2, 3, 4, 5, 6], {bench.mark(part) for part in range(3)})


def test_what_is_refused_is_refused_again_when_the_part_is_there(bench: Bench) -> None:
    """Whatever the log would say of it by then: else it would be in no topic and in no error topic."""
    sink = TopicSink(f"{bench.flow}-{{user}}")
    late = f"{bench.flow}-late"
    given = bench.deliveries(1, 2, 3, 4, targets=[bench.target, late, "bad name/", bench.target])
    given.payloads = [*given.payloads[:3], b'{"n":4,"text":"%s"}' % (b"x" * 5_000)]
    first = bench.write(given, sink=sink)
    bench.log.create_topic(late, 1)
    second = bench.write(given, sink=sink)
    for refusals in (first, second):
        assert sorted((each.at, each.code) for each in refusals) == [(at, ErrorCode.ITEM_REFUSED) for at in (1, 2, 3)]
    assert {each.at: each.exception for each in first} == {each.at: each.exception for each in second}
    bench.wait_for([1], {bench.mark()})
    assert everything(bench.log, late) == []
    assert bench.write(given, sink=sink, batch_id=4)[0].at != 1  # a new decision finds the topic


def test_records_that_the_broker_refuses_are_left_out_and_the_rest_is_written_once(
    kafka, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a transaction one of them undoes all: it is done again without it, from memory and from a file."""
    monkeypatch.setattr(kept, "IN_MEMORY_BYTES", 10)
    servers = kafka.url.removeprefix("kafka://")
    settings = Settings(log={"url": kafka.url, "timeout_s": 20.0, "namespace": name})
    with opened(settings) as log:
        bench = Bench(log, settings, name)
        small, compacted = f"{name}-small", f"{name}-compacted"
        configs = {
            small: {"max.message.bytes": "3000", "retention.ms": "-1"},
            compacted: {"cleanup.policy": "compact", "retention.ms": "-1"},
        }
        admin = AdminClient({"bootstrap.servers": servers})
        for topic, config in configs.items():
            admin.create_topics([NewTopic(topic, 2, config=config)])[topic].result(30)
        made = configs.keys()
        wait_until(lambda: made <= admin.list_topics(timeout=30).topics.keys(), what="the broker shows what was made")
        sink = TopicSink("{topic}")
        numbers = range(60)
        given = bench.deliveries(*numbers, targets=[(bench.target, small, compacted)[n % 3] for n in numbers])
        # Of 2,930 bytes, headers and all, only the broker knows whether they fit into 3,000 with what it adds.
        almost = 2_930 - len(b"towpath.delivery") - 64 - len(b"towpath.origin") - len(b"orders:0:0:10")
        texts = [b"x" * 5_000 if n in (4, 31) else b"z" * 200 for n in numbers]
        given.payloads = [b'{"n":%d,"text":"%s"}' % (n, text) for n, text in zip(numbers, texts, strict=True)]
        given.payloads[10] = b'{"n":10,"text":"%s"}' % (b"y" * (almost - len(b'{"n":10,"text":""}')))
        pieces = [given.only(range(at, at + 20)) for at in (0, 20, 40)]
        refusals = bench.write(*pieces, sink=sink)
        keyless = {n for n in numbers if n % 3 == 2 and n % 2 == 0}  # a compacted topic takes nothing without a key
        found = {int(each.deliveries.ids[each.at].rpartition(":")[2]) for each in refusals}
        assert found == {4, 10, 31} | keyless
        assert len(refusals) == len(found)
        rest = [n for n in numbers if n not in found]
        bench.wait_for([n for n in rest if n % 3 == 0], {bench.mark()})
        others = [[n for n in rest if n % 3 == 1], [n for n in rest if n % 3 == 2]]
        wait_until(
            lambda: [bench.numbers_in(small), bench.numbers_in(compacted)] == others, what="what the others have"
        )
        again = bench.write(given, sink=sink)
        assert {again_one.at for again_one in again} == found


def test_what_others_write_into_the_marks_topic_is_passed_over(bench: Bench) -> None:
    bench.write(bench.deliveries(1))
    odd = [
        NewRecord(b"x"),
        NewRecord(None, b"\xff"),
        NewRecord(b'{"deliveries":1}', b"[" * 100_000 if bench.settings.log.max_record_bytes > 200_000 else b"[[]]"),
        NewRecord(b'{"deliveries":1}', b'["f","s",1,2,"o",["u"],0]'),
        NewRecord(b'{"deliveries":"many"}', bench.mark(1).text.encode()),
        NewRecord(b'{"refused":"xy","reason":[1]}', bench.mark().text.encode()),
        NewRecord(b"[1]", bench.mark(2).text.encode()),
    ]
    bench.log.append(bench.marks.name, odd)
    bench.write(bench.deliveries(1))
    bench.wait_for([1], {bench.mark()})


def test_marks_that_are_gone_need_a_person(bench: Bench) -> None:
    bench.since = {0: 5}
    with pytest.raises(NeedsPerson):
        bench.write(bench.deliveries(1))
    assert bench.numbers() == []


def test_a_missing_topic_is_waited_for(bench: Bench) -> None:
    with pytest.raises(SinkError) as caught:
        bench.write(bench.deliveries(1, targets=["none"]), sink=TopicSink("none"))
    assert caught.value.code == ErrorCode.TOPIC_NOT_FOUND
    bench.write(bench.deliveries(1, targets=[f"{bench.flow}-new"]), sink=TopicSink(f"{bench.flow}-new", partitions=3))
    assert bench.log.topic(f"{bench.flow}-new").partitions == 3


def test_flows_that_are_not_exactly_once_have_no_marks(bench: Bench) -> None:
    place = replace(bench.place(), strategy=Strategy.AT_LEAST_ONCE)
    for _ in range(2):
        writer = TopicSink(bench.target).writer(place)
        writer.write(bench.deliveries(1))
        writer.finish()
        writer.close()
    bench.wait_for([1, 1], set())


def test_the_audit_takes_a_delivery_that_is_there_twice_for_a_fault(bench: Bench) -> None:
    """Only where the flow says that it cannot happen."""
    ids = DeliveryIds(bench.flow, "stage", "output")
    for strategy, is_fault in ((Strategy.EXACTLY_ONCE, True), (Strategy.AT_LEAST_ONCE, False)):
        reader = open_reader(TopicSink(bench.target), bench.log, {}, ids, strategy)
        assert isinstance(reader, TopicReader)
        assert reader.is_idempotent is is_fault


def test_the_marks_topic_is_kept_for_ever(bench: Bench) -> None:
    topic = bench.log.topic(FlowTopics.of(bench.flow).marks)
    assert (topic.partitions, topic.retention_s) == (1, None)
    assert Mark.of_text(bench.mark(2).text) == bench.mark(2)
