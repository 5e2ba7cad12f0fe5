"""What lies in an error topic: the record as it was, and in its headers what happened to it.

Value and key are the original bytes. The record's own headers come first; ours, all beginning with `towpath.`, replace
any that begin so, so that a record which fails again after a replay does not grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from towpath.flow.codes import ErrorCode
from towpath.flow.delivered import Delivered
from towpath.flow.failure import Failure
from towpath.flow.positions import Range
from towpath.flow.worker.report import Failed
from towpath.log.record import Headers, NewRecord, Record

PREFIX = "towpath."
ERROR, GAP = "error", "gap"
ORDER = "order"  # "key": records of its key wait for it
DELIVERED = "delivered"  # what outputs have of the record


@dataclass(frozen=True, slots=True)
class BatchName:
    """The batch in which something failed. What a reset has passed over belongs to none, only to a generation."""

    flow: str
    stage: str
    version: str
    generation: int
    batch_id: int | None
    hash: str
    process: str


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """An entry of an error topic, read back."""

    kind: str
    flow: str
    stage: str
    topic: str
    topic_id: str
    partition: int
    offset: int  # of a gap: its first
    failure: Failure
    batch_id: int | None  # None: a gap that a reset has left
    generation: int
    hash: str
    output: str | None
    delivery_id: str | None
    attempt: int
    correlation: str
    stop: int | None = None  # of a gap: the offset after its last
    delivered: tuple[str, ...] = ()  # outputs that have all of the record
    partly: Mapping[str, frozenset[int]] = field(default_factory=dict)  # ordinals of what others have of it
    order: str | None = None

    @classmethod
    def read(cls, record: Record) -> Self:
        """Raises `KeyError` or `ValueError` when it is no error record of a flow."""
        said = {name: (value or b"").decode() for name, value in record.headers if name.startswith(PREFIX)}
        get = {name.removeprefix(PREFIX): value for name, value in said.items()}
        delivered = Delivered.of_json(get.get(DELIVERED, "[]"))
        is_of_batch = get["kind"] != GAP or "batch" in get
        return cls(
            get["kind"],
            get["flow"],
            get["stage"],
            get["topic"],
            get["topic-id"],
            int(get["partition"]),
            int(get["offset"]),
            Failure(ErrorCode(int(get["code"])), get["step"], get["exception"], get["message"], get.get("trace", "")),
            int(get["batch"]) if is_of_batch else None,
            int(get["generation"]),
            get["hash"] if is_of_batch else "",
            get.get("output"),
            get.get("delivery"),
            int(get.get("attempt", 1)),
            get.get("correlation", ""),
            int(get["stop"]) if "stop" in get else None,
            tuple(sorted(delivered.whole)),
            delivered.partly,
            get.get(ORDER),
        )


def error_records(
    failed: Iterable[Failed],
    batch: BatchName,
    topic_ids: Mapping[str, str],
    carried: Callable[[Failed], Mapping[str, str]] = lambda one: {},
    delivered: Callable[[Failed], Delivered] = lambda one: Delivered(),
    order: str | None = None,
) -> Iterator[NewRecord]:
    """The error records of a batch, in the order of its reports.

    `carried` is what one keeps of its own headers, `delivered` what outputs have of it: a replay is for the rest.
    `order` is that of the flow, told of records that have a key.
    """
    for one in failed:
        details = {
            "kind": ERROR,
            **names_of(batch),
            "topic": one.topic,
            "topic-id": topic_ids.get(one.topic, ""),
            "partition": str(one.partition),
            "offset": str(one.offset),
            "timestamp": str(one.timestamp_ms),
            **_failure(one.failure),
            **carried(one),
        }
        if order is not None and one.key is not None:
            details[ORDER] = order
        if one.output is not None:
            details["output"] = one.output
        if one.delivery_id is not None:
            details["delivery"] = one.delivery_id.hex()
        if done := delivered(one):
            details[DELIVERED] = done.to_json()
        yield NewRecord(one.value, one.key, _headers(one.headers, details))


def gap_record(gap: Range, reason: str, batch: BatchName) -> NewRecord:
    """Offsets that were gone before they were read. There is no body: nobody has seen it."""
    failure = Failure(ErrorCode.OFFSET_NOT_AVAILABLE, "extract", "OffsetNotAvailable", reason)
    details = {
        "kind": GAP,
        **names_of(batch),
        "topic": gap.topic,
        "topic-id": gap.topic_id,
        "partition": str(gap.partition),
        "offset": str(gap.start),
        "stop": str(gap.stop),
        **_failure(failure),
    }
    return NewRecord(None, f"{gap.topic}/{gap.partition}".encode(), _headers((), details))


def names_of(batch: BatchName) -> dict[str, str]:
    """What is written into every record of ours, by name without the prefix."""
    names = {
        "flow": batch.flow,
        "stage": batch.stage,
        "version": batch.version,
        "generation": str(batch.generation),
        "process": batch.process,
    }
    return names if batch.batch_id is None else names | {"batch": str(batch.batch_id), "hash": batch.hash}


def _failure(failure: Failure) -> dict[str, str]:
    said = {
        "code": str(int(failure.code)),
        "step": failure.step,
        "exception": failure.exception,
        "message": failure.message,
    }
    return said | ({"trace": failure.trace} if failure.trace else {})


def _headers(own: Headers, details: Mapping[str, str]) -> Headers:
    ours = {PREFIX + name: value.encode("utf-8", "replace") for name, value in details.items()}
    # A sender who imitates our headers must not be believed, nor make a record unreadable.
    kept = tuple((name, value) for name, value in own if not name.startswith(PREFIX))
    return (*kept, *ours.items())
