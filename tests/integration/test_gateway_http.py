"""The gateway over HTTP: who may do what, what is said when it has to wait, and how uploads are shown."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from tests.support.http import Client, error_of, make_key
from tests.support.sweep import sweep

from towpath.errors import (
    CommitUnknown,
    DatabaseUnavailable,
    LogUnavailable,
    NotYet,
    ProducerFenced,
    TowpathError,
    TransactionUnknown,
)
from towpath.gateway.service import Gateway
from towpath.runtime import Runtime
from towpath.testing.clock import SettableClock
from towpath.web.app import build_app

PREFIX = "/gateway/v1"
STREAM = {"inputs": {"readings": {"schema": "sensor string, at bigint", "partitions": 1}, "sensors": {"partitions": 1}}}
NEW: dict[str, Any] = {"stream": "lab", "senders": [{"sender": "a", "input": "readings", "format": "jsonl"}]}
LINES = b'{"sensor":"s","at":1}\n{"sensor":"t","at":2}\n'

APPS: dict[Runtime, FastAPI] = {}  # of the present test

Make = Callable[..., Runtime]


@pytest.fixture
def make(make_runtime: Make, tmp_path: Path) -> Iterator[Make]:
    """A runtime with the stream `lab`; its log is a file, whatever the database is."""

    def runtime(**gateway: Any) -> Runtime:
        log = {"url": f"sqlite:///{tmp_path}/topics.db"}
        return make_runtime(log=log, gateway={"directory": str(tmp_path / "up"), "streams": {"lab": STREAM}, **gateway})

    yield runtime
    APPS.clear()


@pytest.fixture
def lab(make: Make) -> Runtime:
    return make()


def person(runtime: Runtime, name: str, role: str = "viewer", *scopes: str) -> Client:
    """A client of somebody of that name."""
    if name not in {user.name for user in runtime.access.users()}:
        runtime.access.add_user(name, role, who="test", why="a test")
    wanted = scopes or ("gateway:send", "gateway:receive")
    key = runtime.access.make_key(name, list(wanted), who="test", why="a test")[1].text
    if runtime not in APPS:
        APPS[runtime] = build_app(runtime)
    return Client(runtime, key, APPS[runtime])


def opened(client: Client, **more: Any) -> str:
    answer = client.post(f"{PREFIX}/uploads", json={**NEW, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def session(client: Client, upload: str) -> Any:
    answer = client.post(f"{PREFIX}/uploads/{upload}/senders/a/session")
    assert answer.status_code == 200, answer.text
    return answer.json()


def chunk(client: Client, upload: str, body: bytes = LINES, **numbers: Any) -> Any:
    params = {"session": 1, "offset": 0, "sequence": 1, **numbers}
    return client.post(f"{PREFIX}/uploads/{upload}/senders/a/chunks", params=params, content=body)


def test_from_open_to_closing(make: Make) -> None:
    runtime = make()
    ada = person(runtime, "ada")
    upload = opened(ada, label="tuesday")
    found = session(ada, upload)
    assert (found["session"], found["position"], found["chunk_bytes"]) == (1, 0, 8 << 20)
    taken = chunk(ada, upload).json()
    assert taken.pop("next_bytes") == 8 << 20
    assert taken == {"position": len(LINES), "line": 2, "sequence": 1, "refused": 0, "crc32": zlib.crc32(LINES)}
    said = {"session": 1, "bytes": len(LINES), "crc32": zlib.crc32(LINES)}
    for _ in range(2):
        finished = ada.post(f"{PREFIX}/uploads/{upload}/senders/a/finish", json=said)
        assert finished.status_code == 200, finished.text
        assert finished.json()["state"] == "finished"
    shown = ada.get(f"{PREFIX}/uploads/{upload}").json()
    assert (shown["label"], shown["owner"], shown["stream"]) == ("tuesday", "ada", "lab")
    assert shown["state"] != "receiving"
    assert {key: shown["senders"][0][key] for key in taken} == taken


def test_who_sends_is_told_what_is_everybodys_share(make: Make) -> None:
    """Of those that have sent a moment ago; one that has finished, or only opened an upload, needs none."""
    runtime = make(chunk_bytes=64 << 10, line_bytes=1024)
    ada = person(runtime, "ada")
    opened(ada)
    uploads = [opened(ada) for _ in range(5)]
    for upload in uploads:
        session(ada, upload)
    shares = [chunk(ada, upload).json()["next_bytes"] for upload in uploads]
    assert shares == [64 << 10, 32 << 10, (64 << 10) // 3, 16 << 10, 16 << 10]
    said = {"session": 1, "bytes": len(LINES), "crc32": zlib.crc32(LINES)}
    for upload in uploads[:4]:
        assert ada.post(f"{PREFIX}/uploads/{upload}/senders/a/finish", json=said).status_code == 200
    left = chunk(ada, uploads[4], offset=len(LINES), sequence=2).json()
    assert left["next_bytes"] == 64 << 10
    small = person(make(chunk_bytes=2048, line_bytes=1024), "bob")
    upload = opened(small)
    session(small, upload)
    assert chunk(small, upload).json()["next_bytes"] == 2048


def test_uploads_come_in_pages(make: Make) -> None:
    runtime = make()
    ada, bob = person(runtime, "ada"), person(runtime, "bob")
    ids = [opened(ada) for _ in range(5)]
    opened(bob)
    seen: list[str] = []
    before: int | None = None
    while True:
        params: dict[str, Any] = {"limit": 2, "stream": "lab", "state": "receiving"}
        page = ada.get(f"{PREFIX}/uploads", params=params | ({} if before is None else {"before": before})).json()
        seen += [each["id"] for each in page["items"]]
        before = page["next"]
        if before is None:
            break
    assert seen == ids[::-1]
    assert ada.get(f"{PREFIX}/uploads", params={"state": "finished"}).json()["items"] == []
    assert error_of(ada.get(f"{PREFIX}/uploads", params={"state": "lost"}))["code"] == "not_valid"


def test_streams_are_shown_with_what_they_take(make: Make) -> None:
    [found] = person(make(line_bytes=2048), "ada").get(f"{PREFIX}/streams").json()["items"]
    assert (found["stream"], found["chunk_bytes"], found["line_bytes"]) == ("lab", 8 << 20, 2048)
    assert [(each["input"], each["schema"]) for each in found["inputs"]] == [
        ("readings", "sensor string, at bigint"),
        ("sensors", None),
    ]


def test_operators_see_and_end_what_is_not_theirs_and_cannot_send_in_anothers_name(make: Make) -> None:
    runtime = make()
    ada = person(runtime, "ada")
    upload = opened(ada)
    session(ada, upload)
    viewer = person(runtime, "vi", "viewer", "read", "gateway:send")
    operator = person(runtime, "op", "operator", "read", "desk:write", "gateway:send", "gateway:receive")
    assert viewer.get(f"{PREFIX}/uploads/{upload}").status_code == 404
    assert viewer.get(f"{PREFIX}/uploads").json()["items"] == []
    assert operator.get(f"{PREFIX}/uploads/{upload}").json()["owner"] == "ada"
    assert [each["id"] for each in operator.get(f"{PREFIX}/uploads").json()["items"]] == [upload]
    assert error_of(chunk(operator, upload))["code"] == "unknown_upload"
    assert operator.get(f"{PREFIX}/uploads/{upload}/results/any").status_code == 404
    assert viewer.post(f"{PREFIX}/uploads/{upload}/abort", json={"why": "x"}).status_code == 404
    ended = operator.post(f"{PREFIX}/uploads/{upload}/abort", json={"why": "never finished"}).json()
    assert (ended["state"], ended["who"], ended["reason"]) == ("aborted", "op", "never finished")
    trail = [(row.who, row.what, row.outcome) for row in runtime.access.trail(subject=upload)]
    assert ("op", "abort upload", "done") in trail


@sweep(
    ("scope", "method", "path", "status"),
    [
        ("gateway:receive", "POST", "/uploads", 403),
        ("gateway:receive", "POST", "/uploads/x/senders/a/session", 403),
        ("gateway:receive", "POST", "/uploads/x/senders/a/chunks?session=1&offset=0&sequence=1", 403),
        ("gateway:receive", "GET", "/uploads/x", 404),
        ("gateway:send", "GET", "/uploads/x/results/q", 403),
        ("gateway:send", "GET", "/uploads/x", 404),
        ("read", "GET", "/uploads/x", 404),
        ("read", "POST", "/uploads/x/abort", 403),
        ("metrics", "GET", "/uploads", 403),
    ],
)
def test_scopes(lab: Runtime, scope: str, method: str, path: str, status: int) -> None:
    answer = person(lab, "ada", "viewer", scope).request(method, PREFIX + path, json={"why": "x"})
    assert answer.status_code == status, answer.text
    error_of(answer)


@sweep(
    ("sent", "status", "code"),
    [
        ({**NEW, "stream": "none"}, 404, "unknown_stream"),
        ({**NEW, "senders": []}, 422, "not_valid"),
        ({**NEW, "id": "x"}, 422, "not_valid"),
        ({**NEW, "more": 1}, 422, "not_valid"),
        ({**NEW, "label": "x" * 201}, 422, "not_valid"),
        ({**NEW, "label": "a\x00"}, 422, "not_valid"),
        ({**NEW, "senders": NEW["senders"] * 2}, 422, None),
        ({**NEW, "senders": [{"sender": "a", "input": "none"}]}, 422, None),
        ({**NEW, "senders": [{"sender": "a", "input": "readings", "columns": ["x", "x"]}]}, 422, None),
        ({**NEW, "senders": [{"sender": "a", "input": "readings", "format": "xml"}]}, 422, "not_valid"),
    ],
)
def test_uploads_that_cannot_be(lab: Runtime, sent: Any, status: int, code: str | None) -> None:
    answer = person(lab, "ada").post(f"{PREFIX}/uploads", json=sent)
    assert answer.status_code in (status, 404), answer.text
    assert code in (None, error_of(answer)["code"])


def test_who_asks_too_often_waits(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.web.visitors.time", SettableClock())  # no time passes for the limits
    runtime = make(requests_per_s=1)
    ada, bob = person(runtime, "ada"), person(runtime, "bob")
    answers = [ada.get(f"{PREFIX}/streams") for _ in range(6)]
    late = answers[-1]
    assert (late.status_code, error_of(late)["code"]) == (429, "too_fast")
    assert int(late.headers["Retry-After"]) >= 1
    assert bob.get(f"{PREFIX}/streams").status_code == 200


def test_who_sends_too_much_waits(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.web.visitors.time", SettableClock())
    runtime = make(bytes_per_s=10)
    ada = person(runtime, "ada")
    upload = opened(ada)
    session(ada, upload)
    assert chunk(ada, upload).status_code == 200
    late = chunk(ada, upload, sequence=2, offset=len(LINES))
    assert (late.status_code, error_of(late)["code"]) == (429, "too_fast")
    assert int(late.headers["Retry-After"]) >= 2


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DatabaseUnavailable("away"), 503),
        (CommitUnknown("cut off"), 503),
        (LogUnavailable("away"), 503),
        (TransactionUnknown("cut off"), 503),
        (ProducerFenced.__new__(ProducerFenced), 503),
        (NotYet("behind", "the flow is behind", 7.2), 429),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_passes_says_when_to_come_back(
    make: Make, monkeypatch: pytest.MonkeyPatch, error: TowpathError, status: int
) -> None:
    """Also for a body that is sent at the same time."""
    runtime = make()
    ada = person(runtime, "ada")
    upload = opened(ada)

    def away(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(Gateway, "take", away)
    answer = chunk(ada, upload)
    assert answer.status_code == status
    assert int(answer.headers["Retry-After"]) == (8 if status == 429 else 1)
    error_of(answer)
    assert runtime.access.trail(subject=f"{PREFIX}/uploads/{upload}/senders/a/chunks") == []


def test_chunks_leave_no_trail(make: Make) -> None:
    """A client that is told to wait a thousand times writes no thousand rows."""
    runtime = make()
    ada = person(runtime, "ada")
    upload = opened(ada)
    session(ada, upload)
    before = len(runtime.access.trail(limit=1000))
    assert error_of(chunk(ada, upload, offset=5))["code"] == "chunk_gap"
    assert error_of(chunk(ada, upload, session=9))["code"] == "session_replaced"
    assert chunk(ada, upload).status_code == 200
    assert len(runtime.access.trail(limit=1000)) == before


def test_the_server_says_what_is_too_large(make: Make) -> None:
    runtime = make(chunk_bytes=4096, line_bytes=1024)
    ada = person(runtime, "ada")
    upload = opened(ada)
    session(ada, upload)
    answer = chunk(ada, upload, b"x" * 9000)
    assert (answer.status_code, error_of(answer)["code"]) == (413, "chunk_too_large")
    assert error_of(answer)["details"] == {"chunk_bytes": 4096}
    big = ada.post(f"{PREFIX}/uploads", content=json.dumps({**NEW, "label": "x" * (9 << 20)}))
    assert big.status_code == 413


def test_metrics_name_the_route_and_not_the_upload(make: Make) -> None:
    runtime = make()
    admin = Client(runtime, make_key(runtime, "admin"))
    upload = opened(admin)
    session(admin, upload)
    text = admin.get("/metrics").text
    assert f'route="{PREFIX}/uploads/{{upload}}/senders/{{sender}}/session"' in text
    assert upload not in text
