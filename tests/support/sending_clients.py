"""A gateway with a stream of three inputs, and what a client does with it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from towpath.errors import LineTooLong
from towpath.gateway.service import Gateway
from towpath.gateway.uploads.model import ChunkReceipt, SenderRequest, UploadStatus
from towpath.log import Record
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

COLUMNS = ("id", "stops", "fare")
SCHEMA = "id string not null, stops string, fare bigint"
STREAMS: dict[str, Any] = {
    "flights": {
        "results": ["cheap"],
        "inputs": {
            "flights": {"schema": SCHEMA, "partitions": 2},
            "airports": {"partitions": 1},
            "late": {"after": ["airports"], "partitions": 1},
        },
    }
}
LINE_BYTES = 64


def gateway_sections(home: Path, **gateway: Any) -> dict[str, Any]:
    """Settings of a gateway whose log is a file of its own, whichever the database is."""
    told = {"streams": STREAMS, "line_bytes": LINE_BYTES, "chunk_bytes": 4096, "retry_after_s": 0.05, **gateway}
    return {"gateway": told, "log": {"url": f"sqlite:///{home}/topics.db"}}


def opened(gateway: Gateway, *senders: SenderRequest, owner: str = "ann", **more: Any) -> UploadStatus:
    """An upload with one CSV sender, or with those given."""
    return gateway.open("flights", senders or (SenderRequest("main", "flights", "csv", COLUMNS),), owner=owner, **more)


@dataclass
class Client:
    """Sends one file as one sender, in whatever pieces it is told."""

    gateway: Gateway
    upload: str
    data: bytes
    sender: str = "main"
    owner: str = "ann"
    session: int = 0
    position: int = 0
    sequence: int = 0
    answers: list[ChunkReceipt] = field(default_factory=list)

    def connect(self) -> None:
        """As after a restart: all that it knows is what the server says."""
        told = self.gateway.session(self.upload, self.sender, owner=self.owner)
        self.session, self.position, self.sequence = told.session, told.position, told.sequence

    def send(self, length: int, *, back: int = 0, sequence: int | None = None) -> ChunkReceipt:
        """So many bytes from where it is, or from before that."""
        offset = max(0, self.position - back)
        told = self.gateway.take(
            self.upload,
            self.sender,
            owner=self.owner,
            session=self.session,
            offset=offset,
            sequence=self.sequence + 1 if sequence is None else sequence,
            data=self.data[offset : offset + length],
            last=offset + length >= len(self.data),
        )
        self.answers.append(told)
        self.position, self.sequence = told.position, told.sequence
        return told

    def send_all(self, length: int = 4096) -> None:
        """The rest, with larger pieces where nothing is taken, and over lines that are too long."""
        while self.position < len(self.data):
            before = self.position
            try:
                self.send(length)
            except LineTooLong:
                self.skip()
            if self.position == before:
                length *= 2

    def skip(self) -> ChunkReceipt:
        """Over one line that is too long."""
        end = self.data.find(b"\n", self.position) + 1 or len(self.data)
        told = self.gateway.skip(
            self.upload,
            self.sender,
            owner=self.owner,
            session=self.session,
            offset=self.position,
            sequence=self.sequence + 1,
            bytes=end - self.position,
            crc32=zlib.crc32(self.data[:end]),
            beginning=self.data[self.position : end].removesuffix(b"\n"),
            why="too long",
        )
        self.position, self.sequence = told.position, told.sequence
        return told

    def finish(self) -> UploadStatus:
        sums = {"bytes": len(self.data), "crc32": zlib.crc32(self.data)}
        return self.gateway.finish(self.upload, self.sender, owner=self.owner, session=self.session, **sums)


def connected(gateway: Gateway, upload: str, data: bytes, sender: str = "main") -> Client:
    client = Client(gateway, upload, data, sender)
    client.connect()
    return client


def taken_records(runtime: Runtime, topic: str = "flights", upload: str | None = None) -> list[Record]:
    """All records of a topic, or those of one upload, by the number of their line."""
    log = runtime.log
    # A broker shows what was committed some milliseconds later.
    wait_until(lambda: log.ends(topic) == log.written_ends(topic), 20, f"{topic} shows all that was sent")
    found = [record for number, start in log.starts(topic).items() for record in log.read(topic, number, start)]
    mine = [each for each in found if upload is None or dict(each.headers).get("upload") == upload.encode()]
    return sorted(mine, key=lambda record: int(dict(record.headers)["line"] or 0))


def shown(record: Record) -> tuple[int, Any, bytes | None, int]:
    """A record without what differs from upload to upload."""
    value = json.loads(record.value or b"null")
    about = value if isinstance(value, dict) else value[1]
    about.pop("upload")
    return int(dict(record.headers)["line"] or 0), value, record.key, record.partition


MakeGateway = Callable[..., Runtime]


@pytest.fixture
def make_gateway(make_runtime: Callable[..., Runtime], tmp_path: Path) -> MakeGateway:
    """Opens runtimes with a gateway, on both databases in turn; each is another process's, as far as it can tell."""

    def make(**gateway: Any) -> Runtime:
        return make_runtime(**gateway_sections(tmp_path, **gateway))

    return make
