"""Results come to files whole, over a way that breaks, and the server forgets only what is safe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.support.cli import CommandLine
from tests.support.commands import TOWPATH, sigint
from tests.support.gateway_server import Gateway, gateway
from tests.support.given_results import RESULTS_STREAM, closing_upload, give, send_results

from towpath.client import Client
from towpath.client.receiver import STATE_FILE, ReceiveRun
from towpath.client.state import ReceivedQuery, StateFile
from towpath.errors import BadStateFile, BadValue, GatewayRefused
from towpath.gateway.uploads.model import UploadState
from towpath.testing.clock import wait_until
from towpath.testing.proxy import CuttingProxy

ROWS = [{"upload": "u", "n": n, "text": f'row {n}, “quoted” "{n}"'} for n in range(25_000)]  # three pages
FEW = ROWS[:3]
END_S = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("gateway"), RESULTS_STREAM) as found:
        yield found


@pytest.fixture
def proxy(server: Gateway) -> Iterator[CuttingProxy]:
    with CuttingProxy(urlsplit(server.address).port or 0) as cutting:
        yield cutting


@pytest.fixture(autouse=True)
def environment(server: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_KEY", server.key)
    monkeypatch.setenv("TOWPATH_SERVER", server.address)


def received(client: Client, upload: str, to: Path, *queries: str, form: str = "jsonl") -> list[ReceivedQuery]:
    with StateFile(to / STATE_FILE) as state:
        return ReceiveRun(client, upload, to, form, state, lambda each: None).run(queries, wait=True)


def state_of(server: Gateway, upload: str) -> UploadState:
    return server.runtime.gateway.status(upload, owner=None).upload.state


def test_results_come_as_they_are_ready_and_the_upload_is_finished(
    server: Gateway, command: CommandLine, tmp_path: Path
) -> None:
    upload = closing_upload(server.runtime)
    fastest = give(server.runtime, upload, "fastest", ROWS)
    first = command.ok("receive", upload, "--to", tmp_path / "out")
    fastest_line, stops_line = first.lines
    assert fastest_line.startswith(f"{tmp_path}/out/fastest.jsonl: 25,000 ")
    assert stops_line.startswith(f"{tmp_path}/out/stops.jsonl: 0 ")
    assert "--wait" in stops_line
    stops = give(server.runtime, upload, "stops", FEW)
    send_results(server.runtime, upload)
    second = command.ok("receive", upload, "--to", tmp_path / "out", "--wait", "--json").json
    assert second["upload"] == upload
    assert [(each["query"], each["rows"], each["is_complete"]) for each in second["results"]] == [
        ("fastest", 25_000, True),
        ("stops", 3, True),
    ]
    assert (tmp_path / "out" / "fastest.jsonl").read_bytes() == fastest
    assert (tmp_path / "out" / "stops.jsonl").read_bytes() == stops
    assert state_of(server, upload) is UploadState.FINISHED
    again = command.ok("receive", upload, "--to", tmp_path / "out", "--wait")  # asks the server for nothing
    assert len(again.lines) == 2


def test_csv_has_its_header_once(server: Gateway, command: CommandLine, tmp_path: Path) -> None:
    upload = closing_upload(server.runtime)
    give(server.runtime, upload, "fastest", ROWS)
    give(server.runtime, upload, "stops", [])
    send_results(server.runtime, upload)
    command.ok("receive", upload, "--to", tmp_path, "--format", "csv", "--wait")
    lines = (tmp_path / "fastest.csv").read_text().splitlines()
    assert lines[0] == "n,text"
    assert lines[1:3] == ['0,"row 0, “quoted” ""0"""', '1,"row 1, “quoted” ""1"""']
    assert len(lines) == 25_001
    assert (tmp_path / "stops.csv").read_text() == ""
    assert state_of(server, upload) is UploadState.FINISHED


@pytest.mark.parametrize("lost", ["question", "answer"])
@pytest.mark.parametrize("text", [b"/results ", b"/results/fastest?", b"/acknowledge"])
def test_one_lost_message(text: bytes, lost: str, server: Gateway, proxy: CuttingProxy, tmp_path: Path) -> None:
    upload = closing_upload(server.runtime)
    fastest, stops = give(server.runtime, upload, "fastest", ROWS), give(server.runtime, upload, "stops", FEW)
    send_results(server.runtime, upload)
    (proxy.lose_question if lost == "question" else proxy.lose_answer)(text)
    client = Client(f"http://127.0.0.1:{proxy.port}", server.key, first_wait_s=0.02)
    received(client, upload, tmp_path)
    assert proxy.cuts >= 1
    assert (tmp_path / "fastest.jsonl").read_bytes() == fastest
    assert (tmp_path / "stops.jsonl").read_bytes() == stops
    assert state_of(server, upload) is UploadState.FINISHED


def test_a_way_that_is_cut_again_and_again(server: Gateway, proxy: CuttingProxy, tmp_path: Path) -> None:
    """In the middle of answers, too: half a page is no page."""
    upload = closing_upload(server.runtime)
    fastest, stops = give(server.runtime, upload, "fastest", ROWS), give(server.runtime, upload, "stops", FEW)
    send_results(server.runtime, upload)
    is_over = threading.Event()

    def cut() -> None:
        while not is_over.wait(0.03) and proxy.cuts < 20:
            proxy.cut_all()

    cutting = threading.Thread(target=cut, daemon=True)
    cutting.start()
    client = Client(f"http://127.0.0.1:{proxy.port}", server.key, first_wait_s=0.01, longest_wait_s=0.05)
    received(client, upload, tmp_path)
    is_over.set()
    cutting.join(END_S)
    assert proxy.cuts > 0
    assert (tmp_path / "fastest.jsonl").read_bytes() == fastest
    assert (tmp_path / "stops.jsonl").read_bytes() == stops
    assert state_of(server, upload) is UploadState.FINISHED


def test_one_query_by_the_state_file_of_the_sender(server: Gateway, command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text("")
    sent = command.ok("send", "trips", tmp_path / "data.jsonl", "--json").json
    ran = command("receive", "--state", sent["state"], "--query", "stops", "--to", tmp_path / "out")
    [line] = ran.lines
    assert line.startswith(f"{tmp_path}/out/stops.jsonl: 0 ")


def test_what_is_in_the_directory_already_is_left_alone(server: Gateway, command: CommandLine, tmp_path: Path) -> None:
    upload, other = closing_upload(server.runtime), closing_upload(server.runtime)
    (tmp_path / "stops.jsonl").write_text("mine")
    command("receive", upload, "--to", tmp_path).refused(1, "stops.jsonl")
    assert (tmp_path / "stops.jsonl").read_text() == "mine"
    (tmp_path / "stops.jsonl").unlink()
    command.ok("receive", upload, "--to", tmp_path)
    command("receive", other, "--to", tmp_path).refused(1, "another")
    command("receive", upload, "--to", tmp_path, "--format", "csv").refused(1, "another")


def test_a_file_that_somebody_has_shortened(server: Gateway, tmp_path: Path) -> None:
    upload = closing_upload(server.runtime)
    give(server.runtime, upload, "stops", FEW)
    client = Client(server.address, server.key)
    received(client, upload, tmp_path, "stops")
    (tmp_path / "stops.jsonl").write_text("")
    with pytest.raises(BadStateFile):
        received(client, upload, tmp_path, "stops")


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ([], 2, "upload"),
        (["x", "--state", "y"], 2, "upload"),
        (["--state", "missing"], 2, "missing"),
        (["00000000-0000-0000-0000-000000000000"], 1, "unknown_upload"),
        (["x", "--format", "xml"], 2, "csv and jsonl"),
    ],
)
def test_wrong_words_are_told(words: list[str], code: int, part: str, command: CommandLine, tmp_path: Path) -> None:
    command("receive", *words, "--to", tmp_path / "out").refused(code, part)


def test_an_unknown_query_and_an_upload_that_was_aborted(server: Gateway, tmp_path: Path) -> None:
    upload = closing_upload(server.runtime)
    client = Client(server.address, server.key)
    with pytest.raises(BadValue, match="fastest, stops"):
        received(client, upload, tmp_path, "slowest")
    server.runtime.gateway.abort(upload, owner=None, who="test", why="a test")
    with pytest.raises(GatewayRefused, match="results_gone"):
        received(client, upload, tmp_path)


def test_the_results_of_another_are_not_there(server: Gateway, tmp_path: Path) -> None:
    upload = closing_upload(server.runtime)
    with pytest.raises(GatewayRefused, match="unknown_upload"):
        received(Client(server.address, server.other_key), upload, tmp_path)


def test_ctrl_c_and_the_same_command_again(server: Gateway, tmp_path: Path) -> None:
    upload = closing_upload(server.runtime)
    fastest = give(server.runtime, upload, "fastest", ROWS)
    words = [*TOWPATH, "receive", upload, "--to", str(tmp_path / "out"), "--wait"]
    state = tmp_path / "out" / STATE_FILE
    with sigint():
        process = subprocess.Popen(words, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: state.exists() and "true" in state.read_text(), END_S, "one query is complete")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=END_S)
    finally:
        process.kill()
    assert (process.returncode, out) == (130, b"")
    assert err.splitlines()[-1] == b"stopped; the same command goes on"
    stops = give(server.runtime, upload, "stops", FEW)
    send_results(server.runtime, upload)
    done = subprocess.run(words, env=dict(os.environ), capture_output=True, timeout=END_S, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "fastest.jsonl").read_bytes() == fastest
    assert (tmp_path / "out" / "stops.jsonl").read_bytes() == stops


def test_rows_for_a_program(server: Gateway) -> None:
    upload = closing_upload(server.runtime)
    give(server.runtime, upload, "fastest", ROWS)
    client = Client(server.address, server.key)
    rows = []
    for page in client.pages(upload, "fastest"):
        rows += [json.loads(line) for line in page.lines.splitlines()]
        assert page.cursor is not None
        client.acknowledge(upload, "fastest", page.cursor)
    assert rows == ROWS
    assert [(each.query, each.is_complete) for each in client.results(upload)] == [("fastest", True), ("stops", False)]
