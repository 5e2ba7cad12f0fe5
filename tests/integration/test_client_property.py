"""Whatever is lost on the way, and in whatever pieces a file is sent: the log has what one whole chunk would give."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.http import Client as HttpClient

import towpath
from towpath.client.connection import ClientKey, Cut, HttpAnswer
from towpath.client.protocol import GatewayProtocol, NewSender, RetryPolicy, RetryTimer
from towpath.client.sender import SendRun, Sent
from towpath.client.sources import FileSource
from towpath.runtime import Runtime

CHUNK_BYTES, LINE_BYTES = 1024, 64
PREFIX = "/gateway/v1"
OWNER = "ada"
FINE, LOSE_QUESTION, LOSE_ANSWER = "fine", "lose question", "lose answer"

good = st.integers(0, 10**6).map(lambda n: json.dumps({"n": n}))
odd = st.sampled_from(["", "nonsense", "é", '{"n":', "x" * 70, "y" * 1500, '"a""b', "\r"])
lines = st.lists(st.one_of(good, good, good, odd), max_size=60)
faults = st.lists(st.sampled_from([FINE, FINE, LOSE_QUESTION, LOSE_ANSWER]), max_size=30)


class Way:
    """To the app in this process; loses questions and answers as it is told."""

    def __init__(self, client: HttpClient, troubles: list[str]) -> None:
        self._client = client
        self._troubles = iter(troubles)

    def ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> HttpAnswer:
        trouble = next(self._troubles, FINE)
        if trouble == LOSE_QUESTION:
            raise Cut("the question is lost")
        got = self._client.request(method, PREFIX + path, content=body, headers=headers)
        if trouble == LOSE_ANSWER:
            raise Cut("the answer is lost")
        return HttpAnswer(got.status_code, {name.lower(): value for name, value in got.headers.items()}, got.content)

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    home = tmp_path_factory.mktemp("gateway")
    stream = {"inputs": {"notes": {"partitions": 1}}}
    gateway = {
        "directory": str(home / "up"),
        "chunk_bytes": CHUNK_BYTES,
        "line_bytes": LINE_BYTES,
        "streams": {"notes": stream},
    }
    with towpath.connect(f"sqlite:///{home}/towpath.db", database={"synchronous": "normal"}, gateway=gateway) as found:
        yield found


@pytest.fixture(scope="module")
def key(runtime: Runtime) -> str:
    runtime.access.add_user(OWNER, "viewer", who="test", why="a test")
    return runtime.access.make_key(OWNER, ["gateway:send"], who="test", why="a test")[1].text


@pytest.fixture(scope="module")
def http(runtime: Runtime, key: str) -> HttpClient:
    return HttpClient(runtime, key)


def sent(http: HttpClient, key: str, file: Path, format: str, troubles: list[str], zip: bool) -> tuple[str, Sent]:
    wire = GatewayProtocol(Way(http, troubles), ClientKey(key), RetryTimer(RetryPolicy(0.0, 0.0)))  # type: ignore[arg-type]
    columns = ("a", "b") if format == "csv" else None
    upload = wire.open("notes", [NewSender("s", "notes", format, columns)], "", str(uuid4())).id
    with FileSource(file) as source:
        return upload, SendRun(wire, upload, "s", source, zip=zip).run()


def records(runtime: Runtime, upload: str) -> list[tuple[int, Any]]:
    """The records of an upload without its id, which is different for each."""
    found = []
    log = runtime.log
    for record in log.read("notes", 0, log.starts("notes")[0]):
        headers = {name: (value or b"").decode() for name, value in record.headers}
        if headers["upload"] == upload:
            text = (record.value or b"").decode().replace(upload, "U")
            found.append((int(headers["line"]), json.loads(text)))
    return found


@pytest.mark.part("matrix")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines, st.sampled_from(["", "\n"]), st.sampled_from(["jsonl", "csv"]), faults, st.booleans())
def test_what_is_lost_on_the_way_makes_no_difference(
    tmp_path: Path,
    runtime: Runtime,
    http: HttpClient,
    key: str,
    texts: list[str],
    end: str,
    format: str,
    troubles: list[str],
    zip: bool,
) -> None:
    data = ("\n".join(texts) + end).encode()
    file = tmp_path / "notes"
    file.write_bytes(data)
    plain, whole = sent(http, key, file, format, [], False)
    rough, pieces = sent(http, key, file, format, troubles, zip)
    assert records(runtime, rough) == records(runtime, plain)
    assert whole.place.position == pieces.place.position == len(data)
    assert whole.place.crc32 == pieces.place.crc32 == zlib.crc32(data)
    assert (whole.place.line, whole.place.refused) == (pieces.place.line, pieces.place.refused)
    numbers = [number for number, _ in records(runtime, rough)]
    assert numbers == sorted(set(numbers))
