"""Results of an upload, put where a flow would have put them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from towpath.gateway.outlet.store import CLOSING, RESULTS, Declared, ResultKind, ResultStore, lines_name, uploads_root
from towpath.gateway.uploads.model import SenderRequest, UploadMove
from towpath.gateway.uploads.store import UploadStore
from towpath.runtime import Runtime

OWNER = "ada"
# A stream whose flow nobody runs: what it would do is done here.
RESULTS_STREAM = """
[gateway.streams.trips]
flow = "trips"
results = ["fastest", "stops"]
"""


def closing_upload(runtime: Runtime) -> str:
    """An upload whose only sender has sent nothing and finished."""
    gateway = runtime.gateway
    upload = gateway.open("trips", [SenderRequest("trips", "trips", "jsonl")], owner=OWNER).upload.id
    session = gateway.session(upload, "trips", owner=OWNER).session
    gateway.finish(upload, "trips", owner=OWNER, session=session, bytes=0, crc32=0)
    store = ResultStore(runtime.database)
    with runtime.database.transaction() as tx:
        for query in ("fastest", "stops"):
            store.declare(tx, upload, Declared(query, ResultKind.CLOSING))
    return upload


def give(runtime: Runtime, upload: str, query: str, rows: Sequence[dict[str, Any]]) -> bytes:
    """All rows of a query, which is complete then; as they stand in its file."""
    text = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    directory = uploads_root(runtime.settings) / upload / RESULTS / query / CLOSING
    directory.mkdir(parents=True)
    if text:  # no file is empty
        Path(directory, lines_name(0, 0, query, "0")).write_bytes(text)
    with runtime.database.transaction() as tx:
        ResultStore(runtime.database).complete(tx, upload, query, [], len(rows), len(text))
    return text


def send_results(runtime: Runtime, upload: str) -> None:
    """Closing is over."""
    with runtime.database.transaction() as tx:
        UploadStore(runtime.database).move(tx, upload, UploadMove.SEND)
