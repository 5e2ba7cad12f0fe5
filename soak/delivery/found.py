"""What is there, read with plain clients: topics as a reader of committed records sees them, and the table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import psycopg
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from psycopg import sql

from soak.delivery.books import Ends
from soak.delivery.flow import ERRORS, LEFT, OUT, PARSED, RIGHT, ROUTES, SOURCE, TABLE, Document

WAIT_S = 30.0
READ_BY_STAGES = (SOURCE, PARSED, LEFT, RIGHT)


@dataclass(frozen=True, slots=True)
class Failed:
    """An error record: of which stage, of which of its inputs, and why."""

    stage: str
    place: str  # partition and offset in the topic that the stage reads
    value: bytes
    message: str


@dataclass(frozen=True)
class Found:
    """Everything, as often as it is there."""

    source: Mapping[str, bytes]  # by partition and offset
    parsed: Sequence[Document]
    routes: Mapping[str, Sequence[Document]]
    out: Sequence[Document]
    table: Sequence[Document]
    errors: Sequence[Failed]


def look(bootstrap: str, url: str) -> Found:
    """At the end of a run: nothing is written any more."""
    return Found(
        {f"{each.partition()}/{each.offset()}": each.value() or b"" for each in _read(bootstrap, SOURCE)},
        _documents(bootstrap, PARSED),
        {route: _documents(bootstrap, route) for route in ROUTES},
        _documents(bootstrap, OUT),
        _rows(url),
        [_failed(each) for each in _read(bootstrap, ERRORS)],
    )


def ends(bootstrap: str) -> Ends:
    """Where the topics end that stages read; before what is in open transactions."""
    consumer = _consumer(bootstrap)
    try:
        return {
            (topic, partition): consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WAIT_S)[1]
            for topic in READ_BY_STAGES
            for partition in consumer.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
        }
    finally:
        consumer.close()


def _documents(bootstrap: str, topic: str) -> list[Document]:
    return [json.loads(each.value() or b"null") for each in _read(bootstrap, topic)]


def _read(bootstrap: str, topic: str) -> Iterator[Message]:
    consumer = _consumer(bootstrap)
    try:
        left = set(consumer.list_topics(topic, timeout=WAIT_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        while left:
            message = consumer.poll(WAIT_S)
            if message is None:
                raise TimeoutError(f"{topic}: nothing came for {WAIT_S:g} s")
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise KafkaException(error)
    finally:
        consumer.close()


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "verdict",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )


def _rows(url: str) -> list[Document]:
    with psycopg.connect(url) as connection:
        found = connection.execute(sql.SQL("select document from {}").format(sql.Identifier("public", TABLE)))
        return [document for (document,) in found.fetchall()]


def _failed(message: Message) -> Failed:
    headers = {name: (value or b"").decode() for name, value in message.headers() or ()}
    place = f"{headers['towpath.partition']}/{headers['towpath.offset']}"
    return Failed(headers["towpath.stage"], place, message.value() or b"", headers["towpath.message"])
