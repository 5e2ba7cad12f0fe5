"""The topic sink on both logs."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.test_sink_index import PLACE, deliveries, through_pickle
from tests.support.logs import Place as LogPlace
from tests.support.logs import everything, values

from towpath.errors import BadSettings, DatabaseUnavailable, LogError, LogUnavailable, PartlyAppended, SinkError
from towpath.flow.failures import ErrorCode
from towpath.flow.sinks.sink import Deliveries, Refusal
from towpath.flow.sinks.topic.logs import opened
from towpath.flow.sinks.topic.sink import TopicSink
from towpath.log.sqlite.log import SqliteLog
from towpath.settings import Settings
from towpath.testing.clock import wait_until
from towpath.testing.proxy import CuttingProxy


@pytest.fixture
def settings(place: LogPlace) -> Settings:
    return Settings(database=place.database, log={"max_record_bytes": 5_000, **place.log})


def write(sink: TopicSink, settings: Settings, *handed: Deliveries) -> list[Refusal]:
    writer = through_pickle(sink).writer(replace(PLACE, settings=settings))
    try:
        return [*(refusal for each in handed for refusal in writer.write(each)), *writer.finish()]
    finally:
        writer.close()


def test_records_carry_payload_key_and_delivery(log, name, settings):
    log.create_topic(name, partitions=1, retention_s="never")  # the times of its records are old
    given = deliveries(
        [b'{"n": 1.0}', b'{"n":2}'], targets=[name] * 2, keys=[b"k", None], timestamps_ms=[1_700_000_000_000, 0]
    )
    assert write(TopicSink(name), settings, given) == []
    first, second = everything(log, name)
    assert (first.value, first.key, first.timestamp_ms) == (b'{"n": 1.0}', b"k", 1_700_000_000_000)
    assert dict(first.headers) == {"towpath.delivery": given.delivery_ids[0].hex().encode(), "towpath.origin": b"id-0"}
    assert (second.value, second.key) == (b'{"n":2}', None)
    assert second.timestamp_ms > 1_700_000_000_000


def test_a_key_may_come_from_the_document(log, name, settings):
    log.create_topic(name, partitions=2)
    sink = TopicSink(name, key="{user}")
    assert str(sink.routing) == "{user}"
    given = deliveries([{"user": "ann"}], targets=[name], keys=[b"old"], routings=["ann"])
    assert write(sink, settings, given) == []
    assert [record.key for record in everything(log, name)] == [b"ann"]


def test_a_record_that_is_too_large_is_refused_alone(log, name, settings):
    log.create_topic(name, partitions=1)
    given = deliveries([{"n": 1}, {"n": "x" * 5_000}, {"n": 3}], targets=[name] * 3)
    [refusal] = write(TopicSink(name), settings, given)
    assert (refusal.at, refusal.code, refusal.exception) == (1, ErrorCode.ITEM_REFUSED, "BadRecord")
    assert values(log, name) == [b'{"n":1}', b'{"n":3}']


def test_a_record_that_only_the_broker_finds_too_large_is_refused_alone(kafka, name):
    """It is refused with those that travel with it to its partition, and would otherwise be tried for ever."""
    servers = kafka.url.removeprefix("kafka://")
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, 2, config={"max.message.bytes": "3000"})])[name].result(30)
    wait_until(lambda: name in admin.list_topics(timeout=30).topics, what="the broker shows what the controller made")
    settings = Settings(log={"url": kafka.url, "timeout_s": 20.0})
    documents = [{"n": n, "text": "x" * 5_000 if n in (3, 17) else ""} for n in range(20)]
    refusals = write(TopicSink(name), settings, deliveries(documents, targets=[name] * 20))
    assert [(each.at, each.code, each.exception) for each in refusals] == [
        (at, ErrorCode.ITEM_REFUSED, "BadRecord") for at in (3, 17)
    ]
    with opened(settings) as log:
        found = sorted(orjson.loads(value)["n"] for value in values(log, name) if value)
    assert found == [n for n in range(20) if n not in (3, 17)]


def test_a_repeat_is_told_by_its_delivery(log, name, settings):
    log.create_topic(name, partitions=1)
    sink = TopicSink(name)
    given = deliveries([{"n": 1}], targets=[name])
    assert write(sink, settings, given, given) == []
    assert not sink.is_idempotent
    assert len({dict(record.headers)["towpath.delivery"] for record in everything(log, name)}) == 1


def test_check_wants_the_topic_or_its_partitions(log, name, settings):
    with pytest.raises(BadSettings, match="partitions="):
        TopicSink(name).check(settings)
    TopicSink(name, partitions=3).check(settings)
    assert log.topic(name).partitions == 3
    TopicSink(name).check(settings)
    TopicSink(name, partitions=3).check(settings)
    TopicSink("{user}").check(settings)


def test_topics_that_differ_from_record_to_record(log, name, settings):
    log.create_topic(f"{name}-a", partitions=1)
    given = deliveries([{"n": 1}, {"n": 2}, {"n": 3}], targets=[f"{name}-a", f"{name}-none", "bad name/"])
    refusals = write(TopicSink(f"{name}-{{user}}"), settings, given)
    assert [(each.at, each.code) for each in refusals] == [(1, ErrorCode.ITEM_REFUSED), (2, ErrorCode.ITEM_REFUSED)]
    assert refusals[0].exception == "UnknownTopic"
    assert values(log, f"{name}-a") == [b'{"n":1}']
    assert (
        write(TopicSink(f"{name}-{{user}}", partitions=1), settings, deliveries([{"n": 2}], targets=[f"{name}-none"]))
        == []
    )
    assert values(log, f"{name}-none") == [b'{"n":2}']


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PartlyAppended([0], [1], 3, "timed out"), ErrorCode.NETWORK),
        (LogUnavailable("away"), ErrorCode.LOG_UNAVAILABLE),
        (LogError("broken"), ErrorCode.LOG_UNAVAILABLE),
        (DatabaseUnavailable("locked"), ErrorCode.LOG_UNAVAILABLE),
    ],
)
def test_an_append_in_doubt_ends_the_attempt(name, tmp_path, monkeypatch, error, code):
    """Nobody knows what was appended: the whole batch is tried again."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(SqliteLog, "append", fail)
    settings = Settings(log={"url": f"sqlite:///{tmp_path}/log.db"})
    with pytest.raises(SinkError) as caught:
        write(TopicSink(name), settings, deliveries([{"n": 1}] * 3, targets=[name] * 3))
    assert caught.value.code == code


def test_a_topic_that_was_deleted_is_waited_for(log, name, settings):
    with pytest.raises(SinkError) as caught:
        write(TopicSink(name), settings, deliveries([{"n": 1}], targets=[name]))
    assert caught.value.code == ErrorCode.TOPIC_NOT_FOUND


def test_a_log_that_is_away_is_an_outage(name, tmp_path):
    away = Settings(log={"url": f"sqlite:///{tmp_path}/no/such/directory.db"})
    for act in (TopicSink(name).check, lambda settings: write(TopicSink(name), settings)):
        with pytest.raises(SinkError) as caught:
            act(away)
        assert caught.value.code == ErrorCode.LOG_UNAVAILABLE


def test_a_broker_that_is_away_is_an_outage(kafka, name):
    with CuttingProxy(1) as nobody:  # takes connections and closes them
        away = Settings(log={"url": f"kafka://127.0.0.1:{nobody.port}", "timeout_s": 1.0})
        with pytest.raises(SinkError) as caught:
            TopicSink(name).check(away)
    assert caught.value.code == ErrorCode.LOG_UNAVAILABLE
