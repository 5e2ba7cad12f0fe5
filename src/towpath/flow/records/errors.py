"""Error records: what lies in the error topic of a flow.

An error record is the record as it was, with headers that say what happened to it. Value and key are the original
bytes. The record's own headers come first; ours, all beginning with `towpath.`, replace any that begin so, so that a
record which fails again after a replay does not grow.

The header `towpath.delivered` says what other outputs have of a record that one output has refused, and which of its
deliveries they have (`DeliveredOutputs`). `["views", ["orders", "0,2-4"]]`: views has all of it; of what orders was to
get, it has the first, and the third to the fifth. When the record comes back it is not for these.

`ErrorWriter` puts error records into their topic: in portions, and whole even where the topic cannot hold them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from towpath.errors import BadRecord
from towpath.flow.delivery.ids import DeliveryIds, InputCoordinates
from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.log.log import Log
from towpath.log.record import Headers, NewRecord, Record, check_record

if TYPE_CHECKING:
    from towpath.flow.worker.report import FailedRecord

PREFIX = "towpath."
ERROR, GAP = "error", "gap"
ORDER = "order"  # "key": records of its key wait for it
DELIVERED = "delivered"  # what outputs have of the record
BLOB = f"{PREFIX}blob"  # the file that has the value

AT_ONCE = 1_000
BYTES_AT_ONCE = 8 << 20
MOST_ORDINALS = 100_000  # that are tried for one record


@dataclass(frozen=True, slots=True)
class DeliveredOutputs:
    """Outputs that have all of a record, and ordinals of what others have."""

    whole: frozenset[str] = frozenset()
    partly: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.whole or any(self.partly.values()))

    def concerns(self, output: str) -> bool:
        return output in self.whole or output in self.partly

    def has(self, output: str, ordinal: int) -> bool:
        return output in self.whole or ordinal in self.partly.get(output, ())

    def joined(self, other: Self) -> DeliveredOutputs:
        outputs = self.partly.keys() | other.partly.keys()
        partly = {name: self.partly.get(name, frozenset()) | other.partly.get(name, frozenset()) for name in outputs}
        return DeliveredOutputs(self.whole | other.whole, partly)

    def to_json(self) -> str:
        partly = [[name, _to_text(self.partly[name])] for name in sorted(self.partly) if self.partly[name]]
        return json.dumps([*sorted(self.whole), *partly])

    @classmethod
    def of_json(cls, text: str) -> Self:
        """`ValueError` when the text is no such list."""
        try:
            found = json.loads(text)
        except RecursionError:
            found = None
        if not isinstance(found, list):
            raise ValueError(f"{text[:80]!r} is no list of outputs")
        whole = frozenset(each for each in found if isinstance(each, str))
        try:
            partly = {str(name): _of_text(ordinals) for name, ordinals in (x for x in found if not isinstance(x, str))}
        except (TypeError, AttributeError) as error:
            raise ValueError(f"{text[:80]!r} is no list of outputs") from error
        return cls(whole, partly)


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
    failure: RecordFailure
    batch_id: int | None  # None: a gap that a reset has left
    generation: int
    hash: str
    output: str | None
    delivery_id: str | None
    attempt: int
    correlation: str
    stop: int | None = None  # of a gap: the offset after its last
    delivered: DeliveredOutputs = DeliveredOutputs()  # what outputs have of the record
    order: str | None = None

    @classmethod
    def read(cls, record: Record) -> Self:
        """Raises `KeyError` or `ValueError` when it is no error record of a flow."""
        said = {name: (value or b"").decode() for name, value in record.headers if name.startswith(PREFIX)}
        get = {name.removeprefix(PREFIX): value for name, value in said.items()}
        delivered = DeliveredOutputs.of_json(get.get(DELIVERED, "[]"))
        is_of_batch = get["kind"] != GAP or "batch" in get
        return cls(
            get["kind"],
            get["flow"],
            get["stage"],
            get["topic"],
            get["topic-id"],
            int(get["partition"]),
            int(get["offset"]),
            RecordFailure(
                ErrorCode(int(get["code"])), get["step"], get["exception"], get["message"], get.get("trace", "")
            ),
            int(get["batch"]) if is_of_batch else None,
            int(get["generation"]),
            get["hash"] if is_of_batch else "",
            get.get("output"),
            get.get("delivery"),
            int(get.get("attempt", 1)),
            get.get("correlation", ""),
            int(get["stop"]) if "stop" in get else None,
            delivered,
            get.get(ORDER),
        )


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


def error_records(
    failed: Iterable[FailedRecord],
    batch: BatchName,
    topic_ids: Mapping[str, str],
    carried: Callable[[FailedRecord], Mapping[str, str]] = lambda one: {},
    delivered: Callable[[FailedRecord], DeliveredOutputs] = lambda one: DeliveredOutputs(),
    order: str | None = None,
) -> Iterator[NewRecord]:
    """The error records of a batch, in the order of its reports.

    `carried` gives the headers that a record keeps from its last replay, `delivered` what outputs have of it: a replay
    is for the rest. `order` is the order of the flow; only records that have a key bear it.
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


def gap_record(gap: OffsetRange, reason: str, batch: BatchName) -> NewRecord:
    """The error record of offsets that were gone before they were read. It has no body."""
    failure = RecordFailure(ErrorCode.OFFSET_NOT_AVAILABLE, "extract", "OffsetNotAvailable", reason)
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
    """The headers that every record of ours has, by name without the prefix."""
    names = {
        "flow": batch.flow,
        "stage": batch.stage,
        "version": batch.version,
        "generation": str(batch.generation),
        "process": batch.process,
    }
    return names if batch.batch_id is None else names | {"batch": str(batch.batch_id), "hash": batch.hash}


def _failure(failure: RecordFailure) -> dict[str, str]:
    said = {
        "code": str(int(failure.code)),
        "step": failure.step,
        "exception": failure.exception,
        "message": failure.message,
    }
    return said | ({"trace": failure.trace} if failure.trace else {})


def _headers(own: Headers, details: Mapping[str, str]) -> Headers:
    ours = {PREFIX + name: value.encode("utf-8", "replace") for name, value in details.items()}
    return (*own_headers(own), *ours.items())


def own_headers(headers: Headers) -> Headers:
    """Those that the sender gave. One that imitates ours must not be believed, nor make a record unreadable."""
    return tuple(header for header in headers if not header[0].startswith(PREFIX))


class ErrorWriter:
    """The error topic of a flow.

    An error record is its record and some headers more, so one that was just small enough for its topic is too large
    for this one. Its value is then put into a file, and the error record has the name of that file.
    """

    def __init__(self, log: Log, topic: str, max_bytes: int, blobs: Path) -> None:
        self._log = log
        self._topic = topic
        self._max_bytes = max_bytes
        self._blobs = blobs

    def send(self, records: Iterable[NewRecord]) -> None:
        """Append them outside any transaction: for what belongs to no batch. Batches have a `Sender`."""
        for portion in in_portions(map(self.fitting, records)):
            self._log.append(self._topic, portion)

    def fitting(self, record: NewRecord) -> NewRecord:
        """The record, or one that has the name of a file in place of a value that is too large."""
        try:
            check_record(record, self._max_bytes)
        except BadRecord:
            name = self._keep(record.value or b"")
            return record._replace(value=None, headers=(*record.headers, (BLOB, name.encode())))
        return record

    def _keep(self, value: bytes) -> str:
        """The name of a file with this content, on the disk when this returns."""
        name = hashlib.sha256(value).hexdigest()
        self._blobs.mkdir(parents=True, exist_ok=True)
        aside = self._blobs / f".{name}.{uuid4().hex}"
        with aside.open("wb") as file:
            file.write(value)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, self._blobs / name)
        return name


def in_portions(records: Iterable[NewRecord]) -> Iterator[list[NewRecord]]:
    """Lists of moderate size, as the records come."""
    portion: list[NewRecord] = []
    size = 0
    for record in records:
        portion.append(record)
        size += len(record.value or b"")
        if len(portion) >= AT_ONCE or size >= BYTES_AT_ONCE:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _to_text(ordinals: Iterable[int]) -> str:
    runs = []
    for _, run in groupby(enumerate(sorted(ordinals)), lambda each: each[1] - each[0]):
        numbers = [number for _, number in run]
        runs.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}")
    return ",".join(runs)


def _of_text(text: str) -> frozenset[int]:
    found: set[int] = set()
    for run in text.split(","):
        first, _, last = run.partition("-")
        if not 0 <= int(first) <= int(last or first) < 1 << 32:
            raise ValueError(f"{run!r} is no run of ordinals")
        if int(last or first) - int(first) + 1 + len(found) > MOST_ORDINALS:
            raise ValueError(f"there are more than {MOST_ORDINALS} ordinals")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def ordinals_of(ids: Collection[bytes], names: DeliveryIds, input: InputCoordinates) -> frozenset[int]:
    """The ordinals of deliveries of an input, by their ids."""
    wanted, found = set(ids), set()
    for ordinal in range(MOST_ORDINALS):
        if not wanted:
            break
        id = names.of(*input, ordinal)
        if id in wanted:
            wanted.remove(id)
            found.add(ordinal)
    return frozenset(found)
