"""Results over HTTP: pages, CSV, streams and events, going on after a cut, acknowledged to the end."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.http import Client, error_of
from tests.support.sweep import sweep

from towpath.gateway.outlet.service import Outlet
from towpath.gateway.outlet.store import CLOSING, RESULTS, Declared, ResultKind, ResultStore, lines_name, uploads_root
from towpath.gateway.uploads.model import SenderRequest, UploadMove
from towpath.gateway.uploads.store import UploadStore
from towpath.runtime import Runtime
from towpath.web.app import build_app

QUERIES = ("fastest", "fares")
ROWS = [{"id": number, "name": f"n,{number}", "fare": None if number % 3 else number / 2} for number in range(1, 8)]

Make = Callable[..., Runtime]


class World:
    """An upload of which all has come, and what becomes of it."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._app = build_app(runtime)
        self._results = ResultStore(runtime.database)
        self._uploads = UploadStore(runtime.database)
        self.client = self.person("ada")
        gateway = runtime.gateway
        self.id = gateway.open("lab", [SenderRequest("a", "lab", "jsonl")], owner="ada").upload.id
        session = gateway.session(self.id, "a", owner="ada").session
        with runtime.database.transaction() as tx:
            for query in QUERIES:
                self._results.declare(tx, self.id, Declared(query, ResultKind.CLOSING))
        gateway.finish(self.id, "a", owner="ada", session=session, bytes=0, crc32=zlib.crc32(b""))

    def person(self, name: str) -> Client:
        self.runtime.access.add_user(name, "viewer", who="test", why="a test")
        scopes = ["gateway:send", "gateway:receive"]
        key = self.runtime.access.make_key(name, scopes, who="test", why="a test")[1].text
        return Client(self.runtime, key, self._app)

    def write(self, query: str, *files: list[dict[str, Any]]) -> None:
        home = uploads_root(self.runtime.settings) / self.id / RESULTS / query / CLOSING
        home.mkdir(parents=True)
        for batch, rows in enumerate(files):
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (home / lines_name(1, batch, query, "0")).write_text(text, encoding="utf-8")

    def complete(self, *queries: str) -> None:
        with self.runtime.database.transaction() as tx:
            for query in queries:
                assert self._results.complete(tx, self.id, query, [], len(ROWS), 1)
            if set(queries) == set(QUERIES):
                self._uploads.move(tx, self.id, UploadMove.SEND)

    def get(self, query: str = "", **params: Any) -> Any:
        path = f"/gateway/v1/uploads/{self.id}/results" + (f"/{query}" if query else "")
        return self.client.get(path, params=params)

    def acknowledge(self, query: str, cursor: str) -> Any:
        path = f"/gateway/v1/uploads/{self.id}/results/{query}/acknowledge"
        return self.client.post(path, json={"cursor": cursor})


@pytest.fixture
def world(make_runtime: Make, tmp_path: Path) -> World:
    log = {"url": f"sqlite:///{tmp_path}/topics.db"}
    stream = {"results": list(QUERIES), "inputs": {"lab": {"partitions": 1}}}
    return World(make_runtime(log=log, gateway={"directory": str(tmp_path / "up"), "streams": {"lab": stream}}))


@pytest.fixture
def ready(world: World) -> World:
    world.write("fastest", ROWS[:3], ROWS[3:])
    world.write("fares")
    world.complete(*QUERIES)
    return world


def rows_of(answer: Any) -> list[Any]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.content.splitlines()]


@sweep("limit", [1, 2, 3, 100])
def test_pages(ready: World, limit: int) -> None:
    seen: list[Any] = []
    cursor: str | None = None
    while True:
        answer = ready.get("fastest", limit=limit, **({} if cursor is None else {"cursor": cursor}))
        rows = rows_of(answer)
        assert len(rows) == int(answer.headers["towpath-rows"]) <= limit
        seen += rows
        cursor = answer.headers["towpath-cursor"]
        if answer.headers["towpath-end"] == "true":
            break
    assert seen == ROWS


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_csv(ready: World, limit: int) -> None:
    text, cursor = "", ""
    while True:
        answer = ready.get("fastest", limit=limit, format="csv", cursor=cursor)
        assert answer.headers["content-type"].startswith("text/csv")
        text += answer.text
        cursor = answer.headers["towpath-cursor"]
        if answer.headers["towpath-end"] == "true":
            break
    lines = text.splitlines()
    assert lines[0] == "id,name,fare"
    assert lines[1:] == [f'{row["id"]},"{row["name"]}",{row["fare"] or ""}' for row in ROWS]


def test_a_result_that_is_not_there_yet_is_empty(world: World) -> None:
    for format in ("jsonl", "csv"):
        answer = world.get("fastest", format=format)
        assert (answer.content, answer.headers["towpath-end"]) == (b"", "false")
        again = world.get("fastest", format=format, cursor=answer.headers["towpath-cursor"])
        assert again.headers["towpath-cursor"] == answer.headers["towpath-cursor"]
    world.write("fastest", ROWS)
    world.complete("fastest")
    found = world.get("fastest", format="csv", cursor=answer.headers["towpath-cursor"])
    assert found.text.splitlines()[0] == "id,name,fare", "with the first row, not before"


def test_a_stream_goes_on_until_the_result_is_complete(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.web.gateway.results.HEARTBEAT_S", 0.2)

    def later() -> None:
        world.write("fastest", ROWS)
        world.complete("fastest")

    looks, page = itertools.count(), Outlet.page

    def page_later(self: Outlet, *asked: Any, **limits: Any) -> Any:
        if next(looks) == 2:  # after two looks in vain the sign of life was given
            later()
        return page(self, *asked, **limits)

    monkeypatch.setattr(Outlet, "page", page_later)
    answer = world.get("fastest", follow="true", limit=2)
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.content.startswith(b"\n"), "a sign of life while there was nothing"
    lines = [json.loads(line) for line in answer.content.splitlines() if line]
    assert [line for line in lines if isinstance(line, dict)] == ROWS
    assert [line[0] for line in lines if isinstance(line, list)] == ["cursor", "cursor", "cursor", "end"]
    rest = rows_of(world.get("fastest", cursor=lines[2][1]))
    assert rest == ROWS[2:], "from the first cursor on"


def test_events_go_on_where_they_were_cut(ready: World) -> None:
    first = ready.get("fastest", limit=2).headers["towpath-cursor"]
    path = f"/gateway/v1/uploads/{ready.id}/results/fastest/events"
    answer = ready.client.get(path, headers={"Last-Event-ID": first})
    assert answer.headers["content-type"].startswith("text/event-stream")
    rows, end, rest = answer.text.split("\n\n")
    assert [json.loads(line[6:]) for line in rows.splitlines() if line.startswith("data: ")] == ROWS[2:]
    id = rows.splitlines()[0].removeprefix("id: ")
    assert end.splitlines() == [f"id: {id}", "event: end", "data: {}"]
    assert rest == ""
    assert ready.acknowledge("fastest", id).json()["is_acknowledged"]


def test_acknowledged_to_the_end_it_is_finished_and_gone(ready: World) -> None:
    found = {each["query"]: each for each in ready.get().json()["items"]}
    assert set(found) == set(QUERIES)
    assert (found["fastest"]["kind"], found["fastest"]["state"], found["fastest"]["cursor"]) == (
        "closing",
        "complete",
        None,
    )
    part = ready.get("fastest", limit=2).headers["towpath-cursor"]
    whole = ready.get("fastest").headers["towpath-cursor"]
    assert ready.acknowledge("fastest", part).json()["cursor"] == part
    assert ready.acknowledge("fastest", whole).json()["is_acknowledged"]
    assert ready.acknowledge("fastest", part).json()["cursor"] == whole, "an older one changes nothing"
    empty = ready.get("fares")
    assert (empty.content, empty.headers["towpath-end"]) == (b"", "true")
    ready.acknowledge("fares", empty.headers["towpath-cursor"])
    assert ready.client.get(f"/gateway/v1/uploads/{ready.id}").json()["state"] == "finished"
    assert ready.acknowledge("fastest", whole).json()["is_acknowledged"], "its answer may have been lost"
    gone = ready.get("fastest")
    assert (gone.status_code, error_of(gone)["code"]) == (410, "results_gone")
    assert ready.get("fastest", follow="true").status_code == 410


@sweep("cursor", ["x", "1.0.0.0.-.0.0.000000000000", "x" * 1001, "\x00", "🚢"])
def test_cursors_that_are_none(ready: World, cursor: str) -> None:
    for answer in (
        ready.get("fastest", cursor=cursor),
        ready.get("fastest", cursor=cursor, follow="true"),
        ready.get("fastest/events", cursor=cursor),
        ready.acknowledge("fastest", cursor),
    ):
        assert answer.status_code == 422, answer.text
        assert error_of(answer)["code"] in ("bad_cursor", "not_valid", "bad_value")


def test_a_cursor_of_another_query_is_refused(ready: World) -> None:
    cursor = ready.get("fastest").headers["towpath-cursor"]
    assert error_of(ready.get("fares", cursor=cursor))["code"] == "bad_cursor"


@sweep(
    ("query", "params", "status", "code"),
    [
        ("none", {}, 404, "unknown_query"),
        ("none", {"follow": "true"}, 404, "unknown_query"),
        ("none/events", {}, 404, "unknown_query"),
        ("fastest", {"limit": 0}, 422, "not_valid"),
        ("fastest", {"bytes": 0}, 422, "not_valid"),
        ("fastest", {"format": "xml"}, 422, "not_valid"),
        ("fastest", {"format": "csv", "follow": "true"}, 422, "bad_value"),
    ],
)
def test_what_cannot_be_asked(ready: World, query: str, params: dict[str, Any], status: int, code: str) -> None:
    answer = ready.get(query, **params)
    assert (answer.status_code, error_of(answer)["code"]) == (status, code)


def test_results_of_somebody_else_are_none(ready: World) -> None:
    cursor = ready.get("fastest").headers["towpath-cursor"]
    ready.client = ready.person("eve")
    for answer in (
        ready.get(),
        ready.get("fastest"),
        ready.get("fastest/events"),
        ready.acknowledge("fastest", cursor),
    ):
        assert (answer.status_code, error_of(answer)["code"]) == (404, "unknown_upload")


def test_ids_are_read_however_they_are_written(ready: World) -> None:
    path = f"/gateway/v1/uploads/{ready.id.upper()}/results/fastest"
    assert rows_of(ready.client.get(path)) == ROWS


def test_one_key_does_not_take_all_streams(ready: World) -> None:
    limits = ready.client.app.state.visitor_limits  # type: ignore[attr-defined]
    limits.streams._most_of_one = 0
    answer = ready.get("fastest", follow="true")
    assert (answer.status_code, error_of(answer)["code"]) == (429, "too_fast")
    assert ready.get("fastest").status_code == 200
