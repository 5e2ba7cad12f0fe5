"""A gateway dies by SIGKILL between any two of its acts; another goes on; every line is in the log once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.recovery.gateway_acts import DATA, LINES, send_all
from tests.recovery.stage import ROOT
from tests.support.sending_clients import connected, gateway_sections, taken_records
from tests.support.tables import events, rows

import towpath
from towpath.core.crash import CrashPoint as P
from towpath.errors import SessionReplaced, UnknownUpload
from towpath.gateway.service import Gateway
from towpath.runtime import Runtime
from towpath.stack.kafka import KafkaServer
from towpath.stack.postgres import PostgresServer
from towpath.testing.processes import ChildProcess

OPENING = (P.UPLOAD_OPEN_BEFORE_COMMIT, P.UPLOAD_OPENED)
TAKING = (
    P.SENDER_OPENED,
    P.CHUNK_PLAN_BEFORE_COMMIT,
    P.CHUNK_PLANNED,
    P.CHUNK_SENT,
    P.CHUNK_SETTLE_BEFORE_COMMIT,
    P.CHUNK_SETTLED,
)
FINISHING = (P.SENDER_FINISH_BEFORE_COMMIT, P.SENDER_FINISHED)
GATEWAY_POINTS = frozenset((*OPENING, P.SESSION_RAISED, *TAKING, *FINISHING))
# The second pass is in the middle of the data; a sender is opened once.
MIDDLE: dict[P, str] = {point: f"{point}:2" for point in TAKING if point is not P.SENDER_OPENED}

Child = Callable[..., ChildProcess]


@pytest.fixture
def embedded(tmp_path: Path) -> dict[str, Any]:
    database = {"url": f"sqlite:///{tmp_path}/towpath.db", "synchronous": "normal"}
    return {**gateway_sections(tmp_path), "database": database, "log": {"url": "embedded"}}


@pytest.fixture
def servers(tmp_path: Path, postgres: PostgresServer, kafka: KafkaServer) -> dict[str, Any]:
    namespace = f"t{uuid4().hex[:12]}"
    sections = gateway_sections(tmp_path)
    for name, told in sections["gateway"]["streams"]["flights"]["inputs"].items():
        told["topic"] = f"{namespace}.{name}"  # the broker is everybody's
    return {
        **sections,
        "database": {"url": postgres.url, "schema": namespace},
        "log": {"url": kafka.url, "namespace": namespace, "timeout_s": 20.0},
    }


@pytest.fixture
def upload() -> str:
    return str(uuid4())


def killed_at(point: str, sections: dict[str, Any], upload: str, tmp_path: Path) -> None:
    told = {"sections": sections, "upload": upload}
    log = tmp_path / "children.log"
    with ChildProcess("tests.recovery.gateway_acts", told, log=log, crash_at=point, cwd=ROOT) as child:
        child.wait_killed()


def check(runtime: Runtime, upload: str) -> None:
    """Every line once, in its record; the row knows it; and each thing has happened once."""
    topic = runtime.gateway.streams.stream("flights").input("flights").topic
    found = taken_records(runtime, topic, upload)
    assert [int(dict(record.headers)["line"] or 0) for record in found] == list(range(1, len(LINES) + 1))
    values = [json.loads(record.value or b"") for record in found]
    assert values[5][2] == LINES[5].decode()
    assert [value["fare"] for value in values if isinstance(value, dict)] == [*range(5), *range(6, 12)]
    [row] = rows(runtime.database, "upload_sender")
    assert (row["position"], row["line"], row["refused"], row["state"], row["plan"]) == (
        len(DATA),
        len(LINES),
        1,
        "finished",
        None,
    )
    assert [row["state"] for row in rows(runtime.database, "upload")] == ["closing"]
    kinds = ("upload_opened", "sender_finished", "upload_received")
    assert [row["kind"] for row in events(runtime.database, *kinds)] == list(kinds)


def recover(point: str, sections: dict[str, Any], upload: str, tmp_path: Path) -> None:
    killed_at(point, sections, upload, tmp_path)
    with towpath.connect(**sections) as runtime:
        send_all(runtime.gateway, upload)
        check(runtime, upload)


@pytest.mark.parametrize("point", sorted(GATEWAY_POINTS))
def test_every_line_is_taken_once_in_spite_of_a_kill_at(
    point: P, embedded: dict[str, Any], upload: str, tmp_path: Path
) -> None:
    recover(MIDDLE.get(point, point), embedded, upload, tmp_path)


@pytest.mark.part("kills")
@pytest.mark.parametrize("point", sorted(GATEWAY_POINTS))
def test_the_same_on_kafka_and_postgresql(point: P, servers: dict[str, Any], upload: str, tmp_path: Path) -> None:
    recover(MIDDLE.get(point, point), servers, upload, tmp_path)


@pytest.mark.parametrize("first", [P.CHUNK_PLANNED, P.CHUNK_SENT])
@pytest.mark.parametrize("second", [P.SENDER_OPENED, P.CHUNK_SETTLE_BEFORE_COMMIT, P.CHUNK_SETTLED])
def test_who_recovers_may_die_at_it(first: P, second: P, embedded: dict[str, Any], upload: str, tmp_path: Path) -> None:
    killed_at(MIDDLE[first], embedded, upload, tmp_path)
    recover(second, embedded, upload, tmp_path)


def test_what_a_kill_leaves_is_what_the_client_is_told(embedded: dict[str, Any], upload: str, tmp_path: Path) -> None:
    """The lines of a chunk that nobody answered are in the log: sent again, they are known."""
    killed_at(P.CHUNK_SENT, embedded, upload, tmp_path)
    with towpath.connect(**embedded) as runtime:
        [row] = rows(runtime.database, "upload_sender")
        assert (row["position"], json.loads(row["plan"])["position"]) == (0, len(DATA[:30].rpartition(b"\n")[0]) + 1)
        client = connected(runtime.gateway, upload, DATA)
        assert client.position == json.loads(row["plan"])["position"]
        client.position = 0
        assert client.send(30, sequence=1).is_repeat


def test_a_client_that_was_never_answered_knows_nothing_and_loses_nothing(
    embedded: dict[str, Any], upload: str, tmp_path: Path
) -> None:
    killed_at(P.UPLOAD_OPEN_BEFORE_COMMIT, embedded, upload, tmp_path)
    with towpath.connect(**embedded) as runtime:
        with pytest.raises(UnknownUpload):
            runtime.gateway.status(upload, owner="ann")
        assert events(runtime.database, "upload_opened") == []
    killed_at(P.SESSION_RAISED, embedded, upload, tmp_path)
    with towpath.connect(**embedded) as runtime, pytest.raises(SessionReplaced):
        older(runtime.gateway, upload)


def older(gateway: Gateway, upload: str) -> None:
    gateway.take(upload, "main", owner="ann", session=0, offset=0, sequence=1, data=DATA)


def test_every_point_of_the_gateway_is_tried() -> None:
    named = ("upload_open", "session_", "sender_", "chunk_")
    assert {point for point in P if point.startswith(named)} == GATEWAY_POINTS
