"""Puts error records into their topic: in portions, and whole even where the topic cannot hold them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from uuid import uuid4

from towpath.errors import BadRecord
from towpath.flow.error_record import PREFIX
from towpath.log.log import Log
from towpath.log.record import NewRecord, check_record

AT_ONCE = 1_000
BYTES_AT_ONCE = 8 << 20
BLOB = f"{PREFIX}blob"


class ErrorBox:
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
