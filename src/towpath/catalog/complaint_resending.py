"""Sends the record behind a complaint to its topic again, once, however often it is asked for.

With the record the log commits, in one transaction, a position of a group that only this complaint has. Who is asked
again after a crash opens the producer, which settles what an older one has under way, and looks for that position.
"""

from __future__ import annotations

from towpath.errors import TopicExists, UnknownTopic
from towpath.flow.topics import FOREVER, producer_of
from towpath.log.log import Log
from towpath.log.record import NewRecord, Record

TOPIC = "towpath.complaints"  # it never has a record: positions in it hold no reader back
SPOT = (TOPIC, 0)
SENT = 1


def group_of(number: int) -> str:
    return f"towpath.complaint.{number}"


def resend_once(log: Log, number: int, record: Record) -> None:
    """The record counts as a new one of its topic; raises `ProducerFenced` when somebody else does this meanwhile."""
    _ensure_topic(log)
    producer = log.producer(producer_of("complaint", str(number)))
    try:
        if SPOT in log.positions(group_of(number)):
            return
        with producer.transaction() as out:
            out.append(record.topic, [NewRecord(record.value, record.key, record.headers)])
            out.commit_positions(group_of(number), {SPOT: SENT})
    finally:
        producer.close()


def forget_sending(log: Log, number: int) -> None:
    """The complaint is settled: nobody will ask again."""
    log.forget_group(group_of(number))


def _ensure_topic(log: Log) -> None:
    try:
        log.topic(TOPIC)
    except UnknownTopic:
        try:
            log.create_topic(TOPIC, 1, retention_s=FOREVER)
        except TopicExists:
            return  # another process was faster
