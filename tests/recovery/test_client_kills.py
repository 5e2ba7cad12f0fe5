"""A client dies by SIGKILL between any two of its acts; the same command again completes it, and doubles nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.commands import run
from tests.support.gateway_server import COLUMNS, Gateway, expected, gateway, readings
from tests.support.given_results import RESULTS_STREAM, closing_upload, give, send_results

from towpath.core.crash import VARIABLE
from towpath.core.crash import CrashPoint as P
from towpath.gateway.uploads.model import UploadState

SEND_POINTS = {
    P.CLIENT_STATE_WRITTEN: 1,
    P.CLIENT_OPENED: 1,
    P.CLIENT_CHUNK_ACKNOWLEDGED: 2,
    P.CLIENT_FINISHED: 1,
}
RECEIVE_POINTS = [
    (P.CLIENT_FILE_SYNCED, 1),
    (P.CLIENT_FILE_SYNCED, 3),
    (P.CLIENT_RECEIVED, 1),
    (P.CLIENT_RECEIVED, 3),
    (P.CLIENT_ACKNOWLEDGED, 1),
    (P.CLIENT_ACKNOWLEDGED, 4),  # the last one of all: the server has forgotten everything
]
GATE_RECEIVE_POINTS = {(P.CLIENT_FILE_SYNCED, 1), (P.CLIENT_RECEIVED, 1), (P.CLIENT_ACKNOWLEDGED, 4)}
CLIENT_POINTS = frozenset({*SEND_POINTS, *(point for point, _ in RECEIVE_POINTS)})
ROWS = [{"n": n, "text": "x" * 50} for n in range(25_000)]  # three pages
FEW = ROWS[:3]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("gateway"), RESULTS_STREAM) as found:
        yield found


def towpath(server: Gateway, *words: object, crash_at: str | None = None) -> subprocess.CompletedProcess[bytes]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    variables |= {"TOWPATH_KEY": server.key, "TOWPATH_SERVER": server.address}
    if crash_at is not None:
        variables[VARIABLE] = crash_at
    return run(*words, env=variables)


@pytest.mark.parametrize("point", SEND_POINTS)
def test_a_file_is_sent_once_in_spite_of_a_kill_at(point: P, server: Gateway, tmp_path: Path) -> None:
    data = readings(60_000)  # several chunks
    file = tmp_path / "readings.csv"
    file.write_bytes((",".join(COLUMNS) + "\n").encode() + data)
    before = {each.id for each in server.runtime.gateway.list(stream="readings")}
    killed = towpath(server, "send", "readings", file, crash_at=f"{point}:{SEND_POINTS[point]}")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    state = json.loads((tmp_path / "readings.csv.upload.json").read_text())
    assert not state["is_finished"]
    done = towpath(server, "send", "readings", file, "--json")
    assert done.returncode == 0, done.stderr
    upload = json.loads(done.stdout)["upload"]
    assert upload == state["upload"]
    assert {each.id for each in server.runtime.gateway.list(stream="readings")} - before == {upload}
    assert server.lines(upload) == [(number + 1, document) for number, document in expected(upload, data)]
    assert server.runtime.gateway.status(upload, owner=None).upload.state is not UploadState.RECEIVING
    assert json.loads((tmp_path / "readings.csv.upload.json").read_text())["is_finished"]


@pytest.mark.parametrize(
    ("point", "pass_"),
    [
        pytest.param(*each, marks=() if each in GATE_RECEIVE_POINTS else pytest.mark.part("kills"))
        for each in RECEIVE_POINTS
    ],
)
def test_rows_come_once_in_spite_of_a_kill_at(point: P, pass_: int, server: Gateway, tmp_path: Path) -> None:
    """Without the length in the state, rows would come twice; acknowledged before they are safe, they would be lost."""
    upload = closing_upload(server.runtime)
    fastest, stops = give(server.runtime, upload, "fastest", ROWS), give(server.runtime, upload, "stops", FEW)
    send_results(server.runtime, upload)
    words = ("receive", upload, "--to", tmp_path / "out", "--wait")
    killed = towpath(server, *words, crash_at=f"{point}:{pass_}")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = towpath(server, *words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "fastest.jsonl").read_bytes() == fastest
    assert (tmp_path / "out" / "stops.jsonl").read_bytes() == stops
    assert server.runtime.gateway.status(upload, owner=None).upload.state is UploadState.FINISHED


def test_every_point_of_the_client_is_here() -> None:
    assert {point for point in P if point.startswith("client_")} == CLIENT_POINTS
