"""What teams write themselves: a consumer that puts a dead-letter topic into a table, and a script that replays it.

Both commit a thousand records at a time. The consumer knows each record by topic, partition and offset, so that
what it reads twice is there once; it groups nothing, counts nothing and decides nothing. The script marks rows after
the broker has their records: when it dies in between, they go twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from psycopg import sql
from psycopg.types.json import Jsonb

from bench.desk.errors import BODY_BYTES, append_errors, make_flow
from bench.desk.intake import FLOW
from towpath.flow.topics import FlowTopics
from towpath.runtime import Runtime

AT_ONCE = 1_000
POLL_S = 0.2
HEADERS = {"stage": "main", "topic": "source", "partition": "0", "attempt": "2"}
TABLE = """
create table dead_letter (
    id bigint generated always as identity primary key, topic text not null, partition integer not null,
    start_offset bigint not null, key bytea, value bytea, headers jsonb not null, failed_at timestamptz not null,
    replayed_at timestamptz, unique (topic, partition, start_offset))
"""
INSERT = """
insert into dead_letter (topic, partition, start_offset, key, value, headers, failed_at)
values (%s, %s, %s, %s, %s, %s, to_timestamp(%s / 1000.0)) on conflict do nothing
"""
NEXT = "select id, key, value, headers from dead_letter where replayed_at is null order by id limit %s"
MARKED = "replayed_at is not null"
MARK = "update dead_letter set replayed_at = now() where id = any (%s)"


def intake_s(runtime: Runtime, errors: int) -> float:
    """Errors put into the table a second, of the same records that the desk is given."""
    make_flow(runtime, FLOW)
    append_errors(runtime, FLOW, errors)
    with _table(runtime) as connection:
        consumer = Consumer(
            {
                "bootstrap.servers": _bootstrap(runtime),
                "group.id": f"by-hand-{uuid4().hex[:8]}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        topic = FlowTopics.of(FLOW).errors
        # Joining a group takes seconds, and happens once: here it is left out.
        consumer.assign([TopicPartition(topic, number, 0) for number in runtime.log.ends(topic)])
        begun = time.perf_counter()
        _until(errors, lambda: _take(consumer, connection), lambda: _count(connection, "true"))
        seconds = time.perf_counter() - begun
        consumer.close()
    return errors / seconds


def _take(consumer: Consumer, connection: psycopg.Connection[Any]) -> None:
    messages = [each for each in consumer.consume(AT_ONCE, POLL_S) if each.error() is None]
    if messages:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(INSERT, [_row(message) for message in messages])
        consumer.commit(asynchronous=False)


def _row(message: Message) -> tuple[Any, ...]:
    headers = {name: (value or b"").decode() for name, value in message.headers() or ()}
    place = (message.topic(), message.partition(), message.offset())
    return (*place, message.key(), message.value(), Jsonb(headers), message.timestamp()[1])


def replay_s(runtime: Runtime, records: int) -> float:
    """Rows of the table produced a second; all of them are marked afterwards."""
    topic = "by-hand.reentry"
    runtime.log.create_topic(topic, 4)
    with _table(runtime) as connection:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(INSERT, [_letter(number) for number in range(records)])
        producer = Producer({"bootstrap.servers": _bootstrap(runtime), "enable.idempotence": True})
        begun = time.perf_counter()
        _until(records, lambda: _replay(producer, topic, connection), lambda: _count(connection, MARKED))
        return records / (time.perf_counter() - begun)


def _letter(number: int) -> tuple[Any, ...]:
    body = (b'{"number": %d, "text": "' % number).ljust(BODY_BYTES - 2, b"x") + b'"}'
    return ("source", 0, number, b"k%d" % number, body, Jsonb({**HEADERS, "offset": str(number)}), 1_700_000_000_000)


def _replay(producer: Producer, topic: str, connection: psycopg.Connection[Any]) -> None:
    with connection.transaction():
        rows = connection.execute(NEXT, (AT_ONCE,)).fetchall()
        for _, key, value, headers in rows:
            producer.produce(topic, value, key, headers=list(headers.items()))
        producer.flush()
        connection.execute(MARK, ([row[0] for row in rows],))


def _until(wanted: int, act: Callable[[], None], count: Callable[[], int]) -> None:
    """Acts as often as it takes at least, then looks after each."""
    for _ in range(wanted // AT_ONCE):
        act()
    while count() < wanted:
        act()


def _count(connection: psycopg.Connection[Any], which: str) -> int:
    return int(connection.execute(f"select count(*) from dead_letter where {which}").fetchall()[0][0])


def _bootstrap(runtime: Runtime) -> str:
    return runtime.settings.log.url.removeprefix("kafka://")


@contextmanager
def _table(runtime: Runtime) -> Iterator[psycopg.Connection[Any]]:
    schema = sql.Identifier(f"by_hand_{uuid4().hex[:8]}")
    with psycopg.connect(runtime.settings.database.url, autocommit=True) as connection:
        connection.execute(sql.SQL("create schema {}").format(schema))
        connection.execute(sql.SQL("set search_path to {}").format(schema))
        connection.execute(TABLE)
        try:
            yield connection
        finally:
            connection.execute(sql.SQL("drop schema {} cascade").format(schema))
