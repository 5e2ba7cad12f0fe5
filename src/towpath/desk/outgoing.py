"""From a row of the outbox and the body of its case to the record that is appended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from towpath.desk.case import Body
from towpath.desk.lane import lane_topic
from towpath.desk.lane_record import lane_record
from towpath.desk.outbox_store import Going
from towpath.desk.target import Target
from towpath.errors import BadRecord
from towpath.flow.error_record import PREFIX
from towpath.flow.reentry_record import reentry_record
from towpath.flow.topics import FlowTopics
from towpath.log.record import NewRecord, Record, check_record


class NotSendable(Exception):
    """Why a record cannot be sent, and what to do about it, as a sentence for a person."""


class Outgoing(NamedTuple):
    """A record and where it goes."""

    row: Going
    topic: str
    record: NewRecord


@lru_cache(maxsize=100)
def _reentry(flow: str) -> str:
    return FlowTopics.of(flow).reentry


def topic_of(flow: str, row: Going) -> str:
    """Where a row is to be appended."""
    match row.target:
        case Target.LANE:
            return lane_topic(flow)
        case Target.REENTRY:
            return _reentry(flow)
        case Target.SOURCE:
            return row.topic


def outgoing(flow: str, row: Going, body: Body | None, blob: Callable[[str], bytes]) -> Outgoing:
    """Raises `NotSendable`."""
    if body is None:
        raise NotSendable("its body is not kept any more, so there is nothing to send; abandon it")
    error = Record("", 0, 0, 0, row.key, _value(body, blob), body.headers)
    try:
        return Outgoing(row, topic_of(flow, row), _record(row, error))
    except KeyError as missing:
        raise NotSendable(f"its headers do not say {missing.args[0]}, so no stage would take it; abandon it") from None


def too_large(made: Sequence[Outgoing], max_bytes: int) -> dict[str, list[Going]]:
    """The rows of those that no topic would take, by what to do about it."""
    found: dict[str, list[Going]] = defaultdict(list)
    for each in made:
        why = _too_large(each.record, max_bytes)
        if why is not None:
            found[why].append(each.row)
    return dict(found)


def _too_large(record: NewRecord, max_bytes: int) -> str | None:
    try:
        check_record(record, max_bytes)
    except BadRecord as problem:
        return f"{problem}; raise that setting, or edit the body, and replay it again"
    return None


def _record(row: Going, error: Record) -> NewRecord:
    if row.target is Target.SOURCE:
        own = tuple(header for header in error.headers if not header[0].startswith(PREFIX))
        return NewRecord(error.value, error.key, own)
    back = reentry_record(error, row.case_id, row.attempt, ticket=row.ticket)
    if row.lane is None or row.due_at is None:
        return back
    return lane_record(back, row.lane, row.due_at)


def _value(body: Body, blob: Callable[[str], bytes]) -> bytes | None:
    if body.blob is None:
        return body.value
    try:
        return blob(body.blob)
    except OSError as error:
        raise NotSendable(
            f"the file with its body cannot be read ({error.strerror}); put it back and replay"
        ) from error
