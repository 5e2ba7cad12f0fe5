"""Uploads that a test sends, and results that it reads, without HTTP."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from towpath.gateway.uploads.model import SenderRequest
from towpath.runtime import Runtime

OWNER = "tester"


def open_upload(runtime: Runtime, stream: str, *inputs: str) -> str:
    """With one sender for each input, named after it."""
    senders = [SenderRequest(input, input, "jsonl") for input in inputs]
    return runtime.gateway.open(stream, senders, owner=OWNER).upload.id


def send_input(runtime: Runtime, upload: str, input: str, documents: Sequence[Any]) -> None:
    """All of an input, to its end. What is bytes is sent as it is."""
    lines = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in documents]
    data = b"".join(line + b"\n" for line in lines)
    gateway = runtime.gateway
    session = gateway.session(upload, input, owner=OWNER).session
    if data:
        gateway.take(upload, input, owner=OWNER, session=session, offset=0, sequence=1, data=data, last=True)
    gateway.finish(upload, input, owner=OWNER, session=session, bytes=len(data), crc32=zlib.crc32(data))


def send_upload(runtime: Runtime, stream: str, inputs: Mapping[str, Sequence[Any]]) -> str:
    upload = open_upload(runtime, stream, *inputs)
    for input, documents in inputs.items():
        send_input(runtime, upload, input, documents)
    return upload


def received(runtime: Runtime, upload: str, query: str, most_rows: int = 3) -> list[dict[str, Any]]:
    """All rows of a query that is complete, page by page, and acknowledged."""
    rows: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = runtime.outlet.page(upload, query, cursor, most_rows=most_rows)
        rows += [json.loads(line) for line in page.lines.splitlines()]
        cursor = page.cursor
        runtime.outlet.acknowledge(upload, query, cursor)
        if page.is_end:
            return rows
        assert page.rows, f"{query} of {upload} is not complete"


def state_of(runtime: Runtime, upload: str) -> str:
    return runtime.gateway.status(upload, owner=None).upload.state
