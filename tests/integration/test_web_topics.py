"""Topics and their records over HTTP, and what of them not everybody may see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import CommandLine
from tests.support.http import API, Client, MakeClient, error_of, make_key
from tests.support.same_json import printed
from tests.support.sweep import sweep

from towpath.desk.masks import MASK
from towpath.flow.stage.store import StageStore
from towpath.flow.topics import FlowTopics
from towpath.log import NewRecord
from towpath.runtime import Runtime

TOPICS = f"{API}/topics"
FLOW = "shop"


@pytest.fixture
def log_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/log.db"


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime], log_url: str) -> Runtime:
    return make_runtime(log={"url": log_url})


@pytest.fixture
def viewer(make_client: MakeClient) -> Client:
    return make_client("viewer")


@pytest.fixture
def orders(runtime: Runtime) -> None:
    """A topic without records."""
    runtime.log.create_topic("orders", 1)


@pytest.fixture
def configured(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log_url: str) -> None:
    """The command line on the same database and log."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOWPATH_LOG__URL", log_url)


def offsets(answer: Any) -> list[int]:
    return [item["offset"] for item in answer.json()["items"]]


def test_topics_come_in_pages(viewer: Client, runtime: Runtime, command: CommandLine, configured: None) -> None:
    for name in ("b", "a", "c"):
        runtime.log.create_topic(name, 2)
    first = viewer.get(TOPICS, params={"limit": 2}).json()
    assert ([item["name"] for item in first["items"]], first["next"]) == (["a", "b"], "b")
    rest = viewer.get(TOPICS, params={"limit": 2, "after": first["next"]}).json()
    assert ([item["name"] for item in rest["items"]], rest["next"]) == (["c"], None)
    assert first["items"] + rest["items"] == printed(command, "topic", "list")["items"]


def test_one_topic(viewer: Client, runtime: Runtime, command: CommandLine, configured: None) -> None:
    runtime.log.create_topic("orders", 2)
    runtime.log.append("orders", [NewRecord(b"x", partition=1)] * 3)
    runtime.log.commit_positions("readers", {("orders", 1): 2})
    shown = viewer.get(f"{TOPICS}/orders").json()
    assert shown == printed(command, "topic", "show", "orders")
    assert shown["offsets"][1] == {"partition": 1, "start": 0, "end": 3}
    [group] = shown["groups"]
    assert (group["group"], group["positions"][0]["lag"]) == ("readers", 1)
    answer = viewer.get(f"{TOPICS}/nothing")
    assert (answer.status_code, error_of(answer)["code"]) == (404, "unknown_topic")


def test_records_are_read_by_offset(
    viewer: Client, runtime: Runtime, command: CommandLine, configured: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.log.create_topic("orders", 2, retention_s="never")
    runtime.log.append("orders", [NewRecord(f"{n}".encode(), b"k", (("h", b"\xff"),), 7, 0) for n in range(5)])
    runtime.log.append("orders", [NewRecord(b"\xff\xfe", None, (), 8, 1), NewRecord(None, None, (), 9, 1)])
    first = viewer.get(f"{TOPICS}/orders/records", params={"offset": 0, "limit": 2})
    assert (offsets(first), first.json()["next"], first.json()["end"]) == ([0, 1], 2, 5)
    rest = viewer.get(f"{TOPICS}/orders/records", params={"offset": 2, "limit": 3})
    assert (offsets(rest), rest.json()["next"]) == ([2, 3, 4], None)
    assert offsets(viewer.get(f"{TOPICS}/orders/records", params={"limit": 2})) == [3, 4], "the last ones"
    assert offsets(viewer.get(f"{TOPICS}/orders/records", params={"offset": 5})) == []
    odd = viewer.get(f"{TOPICS}/orders/records", params={"partition": 1}).json()["items"]
    assert [item["value"] for item in odd] == [{"base64": "//4="}, None]
    assert first.json()["items"][0]["headers"] == [["h", {"base64": "/w=="}]]
    assert first.json()["items"][0] == printed(command, "topic", "read", "orders/0/0")
    monkeypatch.setattr("towpath.operations.topics.MOST_BYTES", 3)
    assert offsets(viewer.get(f"{TOPICS}/orders/records", params={"offset": 0})) == [0], "large ones come alone"


@sweep(
    ("path", "status", "code"),
    [
        ("nothing/records", 404, "unknown_topic"),
        ("orders/records?partition=2", 404, "unknown_partition"),
        ("orders/records?offset=9", 404, "offset_out_of_range"),
        ("orders/records?partition=x", 422, "not_valid"),
        ("orders/records?offset=-1", 422, "not_valid"),
        ("orders/records?limit=1001", 422, "not_valid"),
        ("a%20b/records", 404, "unknown_topic"),
    ],
)
def test_what_is_not_there(path: str, status: int, code: str, viewer: Client, orders: None) -> None:
    answer = viewer.get(f"{TOPICS}/{path}")
    assert (answer.status_code, error_of(answer)["code"]) == (status, code)


def test_who_may_not_see_all_fields_sees_what_the_desk_would_show(
    make_runtime: Callable[..., Runtime], log_url: str
) -> None:
    """Of what a flow reads and has; of other topics, in which a flow may have put it under another name, nothing."""
    runtime = make_runtime(log={"url": log_url}, desk={"masked": {FLOW: ["email", "$key", "$headers.token"]}})
    log, own = runtime.log, FlowTopics.of(FLOW)
    own.ensure(log, 1)
    with runtime.database.transaction() as tx:
        StageStore(runtime.database).ensure(tx, FLOW, "main", {"topics": ["orders"]})
        StageStore(runtime.database).ensure(tx, "open", "main", {"topics": ["news"]})
    body = b'{"id":1,"email":"ann@example.org"}'
    headers = (("token", b"s3cret"), ("kind", b"new"))
    said = (*headers, ("towpath.message", b"no price for ann@example.org"))
    for name, value, more in (
        ("orders", body, headers),
        (own.errors, body, said),
        (own.reentry, b"ann@example.org", ()),
        ("elsewhere", body, headers),
        ("news", body, headers),
    ):
        if name not in (own.errors, own.reentry):
            log.create_topic(name, 1)
        log.append(name, [NewRecord(value, b"ann", more)])
    masked, admin = (Client(runtime, make_key(runtime, role)) for role in ("operator", "admin"))

    def seen(name: str) -> dict[str, Any]:
        answer = masked.get(f"{TOPICS}/{name}/records").json()
        assert answer["is_masked"]
        item: dict[str, Any] = answer["items"][0]
        return item

    for name in ("orders", own.errors):
        item = seen(name)
        assert (item["value"], item["key"]) == (f'{{"id":1,"email":"{MASK}"}}', MASK)
        assert item["headers"][:2] == [["token", MASK], ["kind", "new"]]
    assert seen(own.errors)["headers"][2] == ["towpath.message", f"no price for {MASK}"]
    assert seen(own.reentry)["value"] == MASK, "what is no JSON object is hidden whole"
    other = seen("elsewhere")
    assert (other["value"], other["key"], other["headers"]) == (MASK, MASK, [["token", MASK], ["kind", MASK]])
    assert seen("news")["value"] == body.decode(), "no field of that flow is masked"
    assert not admin.get(f"{TOPICS}/orders/records").json()["is_masked"]
    assert admin.get(f"{TOPICS}/elsewhere/records").json()["items"][0]["value"] == body.decode()
