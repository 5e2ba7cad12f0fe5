"""Open cases of one flow, made without a flow: the parts that send records start from them."""

from __future__ import annotations

from typing import NamedTuple

from bench.desk.errors import BODY_BYTES, STAGE, make_flow
from towpath.desk.cases.model import CaseState, NewCase, case_id
from towpath.desk.cases.store import CaseStore
from towpath.desk.groups.store import GroupStore
from towpath.flow.records.errors import PREFIX
from towpath.log.record import encode_headers
from towpath.runtime import Runtime

AT_ONCE = 1_000


class Made(NamedTuple):
    """A group, and the ids of its cases."""

    group: int
    cases: list[str]


def make_topics(runtime: Runtime, flow: str) -> None:
    """A flow that has run, with its topics and its source."""
    make_flow(runtime, flow)
    runtime.log.create_topic(f"{flow}.source", 4, retention_s="never")


def make_cases(runtime: Runtime, flow: str, count: int) -> Made:
    """Open cases of one new group, with bodies of 200 bytes."""
    store, now = CaseStore(runtime.database), runtime.database.now()
    with runtime.database.transaction() as tx:
        group = GroupStore(runtime.database).new(tx, flow, 9, "priced", "KeyError", "no price", now).id
    ids: list[str] = []
    for start in range(0, count, AT_ONCE):
        made = [_case(flow, group, number, now) for number in range(start, min(start + AT_ONCE, count))]
        with runtime.database.transaction() as tx:
            store.insert(tx, made)
        ids += [case.id for case in made]
    return Made(group, ids)


def _case(flow: str, group: int, number: int, now: int) -> NewCase:
    body = (b'{"number": %d, "text": "' % number).ljust(BODY_BYTES - 2, b"x") + b'"}'
    said = {"stage": STAGE, "topic": f"{flow}.source", "topic-id": "id", "partition": "0", "offset": str(number)}
    ours = tuple((PREFIX + name, text.encode()) for name, text in {**said, "timestamp": "1"}.items())
    return NewCase(
        id=case_id(now // 1000, flow, group, number),
        flow=flow,
        stage=STAGE,
        kind="error",
        group_id=group,
        fingerprint="f",
        state=CaseState.OPEN,
        code=9,
        step="priced",
        exception="KeyError",
        message="no price",
        output=None,
        topic=f"{flow}.source",
        topic_id="id",
        partition=0,
        offset=number,
        stop=None,
        key=b"k%d" % number,
        hash="h",
        error_topic=f"{flow}.errors",
        error_partition=0,
        error_offset=number,
        failed_at=now,
        body_bytes=len(body),
        value=body,
        headers=encode_headers(ours),
    )
