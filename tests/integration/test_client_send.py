"""The client against a real gateway, over a way that breaks: every line arrives, and none twice."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.cli import CommandLine
from tests.support.commands import TOWPATH, sigint
from tests.support.gateway_server import COLUMNS, LINE_BYTES, Gateway, expected, gateway, readings, serving
from tests.support.sweep import sweep

from towpath.client import Client, FileSource, NewSender
from towpath.client.sender import Sent
from towpath.client.state import StateFile
from towpath.client.upload import FileInput, UploadPlan, UploadResult, UploadRun, Watcher
from towpath.errors import GatewayRefused, SenderReplaced, SourceChanged
from towpath.testing.clock import wait_until
from towpath.testing.proxy import CuttingProxy

HEADER = (",".join(COLUMNS) + "\n").encode()
QUICK_S = 0.02
END_S = 60
MORE = """
[gateway.streams.trip.inputs.stops]
partitions = 1

[gateway.streams.trip.inputs.legs]
partitions = 1
schema = "id string, km bigint"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("gateway"), MORE) as found:
        yield found


@pytest.fixture
def proxy(server: Gateway) -> Iterator[CuttingProxy]:
    with CuttingProxy(urlsplit(server.address).port or 0) as cutting:
        yield cutting


@pytest.fixture
def environment(server: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks, and whom, by variables."""
    monkeypatch.setenv("TOWPATH_KEY", server.key)
    monkeypatch.setenv("TOWPATH_SERVER", server.address)


def through(proxy: CuttingProxy, server: Gateway, **options: Any) -> Client:
    return Client(f"http://127.0.0.1:{proxy.port}", server.key, first_wait_s=QUICK_S, longest_wait_s=0.5, **options)


def csv_file(tmp_path: Path, data: bytes, name: str = "readings.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(HEADER + data)
    return path


def in_file(upload: str, data: bytes) -> list[tuple[int, Any]]:
    """What lines become, with the numbers that they have behind a header."""
    return [(number + 1, document) for number, document in expected(upload, data)]


def uploaded(
    client: Client, path: Path, on_sent: Callable[[Sent, int | None], None] = lambda sent, size: None
) -> UploadResult:
    """All of a file, with a state file beside it."""
    watcher = Watcher(on_sent, lambda sender: lambda why, wait_s: None)
    with (
        UploadPlan([FileInput("readings", str(path))], None, None) as plan,
        StateFile(path.with_suffix(".state")) as state,
    ):
        work = UploadRun(client, "readings", plan.senders, plan.sources, state=state)
        return work.run(work.begin(), watcher)


def records(server: Gateway, topic: str) -> list[tuple[str, str, Any]]:
    """Upload, sender and value of every record of a topic."""
    found = []
    log = server.runtime.log
    for record in log.read(topic, 0, log.starts(topic)[0]):
        headers = {name: (value or b"").decode() for name, value in record.headers}
        found.append((headers["upload"], headers["sender"], json.loads(record.value or b"null")))
    return found


# By command


@pytest.mark.usefixtures("environment")
def test_a_file_is_sent_once_however_often_the_command_is_given(
    server: Gateway, command: CommandLine, tmp_path: Path
) -> None:
    data = readings(2000)
    path = csv_file(tmp_path, data)
    first = command.ok("send", "readings", path, "--label", "tuesday")
    upload = first.out.split()[1].rstrip(":")
    assert "2,000 lines" in first.out
    assert server.lines(upload) == in_file(upload, data)
    moved = server.address.replace("127.0.0.1", "localhost")
    again = command.ok("send", "readings", path, "--server", moved)
    assert json.loads((tmp_path / "readings.csv.upload.json").read_text())["server"] == moved
    assert upload in again.out
    assert "--new" in again.out
    assert server.lines(upload) == in_file(upload, data)
    new = command.ok("send", "readings", path, "--new", "--json").json
    assert new["upload"] != upload
    assert new["senders"] == [{"sender": "readings", "bytes": len(data), "lines": 2000, "refused": 0, "skipped": []}]
    assert server.lines(new["upload"]) == in_file(new["upload"], data)
    assert server.key not in (tmp_path / "readings.csv.upload.json").read_text()


@pytest.mark.usefixtures("environment")
def test_several_inputs_and_several_senders_of_one(server: Gateway, command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "stops.jsonl").write_text('{"stop": 1}\n{"stop": 2}')  # the last line has no end
    (tmp_path / "a.csv").write_text("id,km\nx,1\ny,many\n")
    (tmp_path / "b.csv").write_text("id,km\nz,3\n")
    words = [
        f"--input=stops={tmp_path}/stops.jsonl",
        f"--input=legs={tmp_path}/a.csv",
        f"--input=legs={tmp_path}/b.csv",
    ]
    ran = command.ok("send", "trip", *words, "--gzip")
    upload = ran.out.split()[1].rstrip(":")
    assert records(server, "trip.stops") == [
        (upload, "stops", {"upload": upload, "stop": 1}),
        (upload, "stops", {"upload": upload, "stop": 2}),
    ]
    legs = sorted(records(server, "trip.legs"), key=lambda record: (record[1], str(record[2])))
    assert [(sender, value) for _, sender, value in legs if isinstance(value, dict)] == [
        ("legs", {"upload": upload, "id": "x", "km": 1}),
        ("legs-2", {"upload": upload, "id": "z", "km": 3}),
    ]
    [refused] = [value for _, _, value in legs if isinstance(value, list)]
    assert (refused[1]["line"], refused[2]) == (3, "y,many")
    assert "legs: 1 line " in ran.err


@pytest.mark.usefixtures("environment")
@sweep(
    ("words", "code", "parts"),
    [
        (["readings"], 2, ["file"]),
        (["readings", "missing.csv"], 1, ["missing.csv"]),
        (["readings", "--input", "x"], 2, ["NAME=FILE"]),
        (["readings", "data.csv", "--format", "xml"], 2, ["csv and jsonl"]),
        (["nothing", "data.csv"], 1, ["nothing", "unknown_stream"]),
        (["readings", "data.csv", "--server", "ftp://x"], 1, ["https://"]),
        (["readings", "data.csv", "--server", "http://towpath.example.org"], 1, ["--plain-http"]),
        (["readings", "data.csv", "--server", "http://127.0.0.1:1", "--give-up-after", "1s"], 3, ["1 s"]),
        (["readings", "data.csv", "--give-up-after", "soon"], 2, ["--give-up-after"]),
        (["readings", "data.csv", "--key-file", "missing"], 3, ["missing"]),
    ],
)
def test_wrong_words_are_told(
    words: list[str], code: int, parts: list[str], command: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    csv_file(tmp_path, b"", "data.csv")
    ran = command("send", *words)
    assert (ran.code, ran.out) == (code, ""), ran
    told = ran.err.splitlines()[-1]
    assert told.startswith("error: ")
    assert [part for part in parts if part not in told] == [], told


@pytest.mark.usefixtures("environment")
def test_what_was_refused_at_once_leaves_nothing_behind(command: CommandLine, tmp_path: Path) -> None:
    """The mended command is another one, and need not say --new."""
    path = csv_file(tmp_path, readings(1))
    assert command("send", "reading", path).code == 1
    command.ok("send", "readings", path)


def test_a_key_that_does_not_count(server: Gateway, command: CommandLine, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("tp_00000000_wrong")
    ran = command("send", "readings", csv_file(tmp_path, b""), "--server", server.address, "--key-file", key)
    assert ran.code == 1
    assert "not_logged_in" in ran.err
    assert "tp_00000000_wrong" not in ran.err


# Over a way that breaks


@pytest.mark.part("kills")
@pytest.mark.parametrize("lost", ["question", "answer"])
@pytest.mark.parametrize("text", [b"POST /gateway/v1/uploads ", b"/session", b"/chunks?", b"/finish"])
def test_one_lost_message(text: bytes, lost: str, server: Gateway, proxy: CuttingProxy, tmp_path: Path) -> None:
    """Whichever it is: the client asks again, and the server does nothing twice."""
    data = readings(500)
    path = csv_file(tmp_path, data)
    (proxy.lose_question if lost == "question" else proxy.lose_answer)(text)
    done = uploaded(through(proxy, server), path)
    assert proxy.cuts >= 1
    assert server.lines(done.upload) == in_file(done.upload, data)
    [found] = server.runtime.gateway.status(done.upload, owner="ada").senders
    assert (found.state, found.position) == ("finished", len(data))


@pytest.mark.part("kills")
def test_a_way_that_is_cut_again_and_again(server: Gateway, proxy: CuttingProxy, tmp_path: Path) -> None:
    data = readings(60_000)
    path = csv_file(tmp_path, data)
    cut_at = iter([100_000, 300_000, 500_000, 700_000, 900_000])
    next_cut = next(cut_at)

    def cut(sent: Sent, size: int | None) -> None:
        nonlocal next_cut
        if sent.place.position >= next_cut:
            next_cut = next(cut_at, 1 << 60)
            threading.Timer(0.01, proxy.cut_all).start()  # in the middle of one of the next chunks

    done = uploaded(through(proxy, server), path, cut)
    assert proxy.cuts >= 3
    assert server.lines(done.upload) == in_file(done.upload, data)


@pytest.mark.part("kills")
def test_a_server_that_is_killed_and_started_again(tmp_path: Path) -> None:
    """What was acknowledged is there, what was not is sent again."""
    home = tmp_path / "home"
    home.mkdir()
    data = readings(20_000)
    path = csv_file(tmp_path, data)
    with gateway(home) as first, CuttingProxy(urlsplit(first.address).port or 0) as proxy:
        client = through(proxy, first)
        is_half = threading.Event()

        def kill(sent: Sent, size: int | None) -> None:
            if size is not None and sent.place.position > size / 3 and not is_half.is_set():
                first.process.send_signal(signal.SIGKILL)
                is_half.set()

        done: list[UploadResult] = []
        sending = threading.Thread(target=lambda: done.append(uploaded(client, path, kill)), daemon=True)
        sending.start()
        assert is_half.wait(END_S)
        with serving(home / "towpath.toml") as (address, _):
            proxy.target_port = urlsplit(address).port or 0
            sending.join(END_S)
            assert done
            assert first.lines(done[0].upload) == in_file(done[0].upload, data)


@pytest.mark.part("kills")
@pytest.mark.parametrize(("when", "says"), [("in the middle", "has taken over"), ("at the end", "sent the rest")])
def test_the_newer_of_two_clients_goes_on_and_the_older_is_told(
    when: str, says: str, server: Gateway, proxy: CuttingProxy, tmp_path: Path
) -> None:
    data = readings(20_000)
    path = csv_file(tmp_path, data)
    client = through(proxy, server)
    upload = client.open("readings", [NewSender("readings", "readings", "csv", tuple(COLUMNS), 2)]).id
    older: list[BaseException] = []
    has_begun, may_go_on = threading.Event(), threading.Event()

    def hold(sent: Sent, size: int | None) -> None:
        has_begun.set()
        may_go_on.wait(END_S)

    def send() -> None:
        with FileSource(path, len(HEADER)) as source:
            try:
                client.send(upload, "readings", source, on_sent=hold)
            except SenderReplaced as error:
                older.append(error)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    assert has_begun.wait(END_S)

    def let_go(sent: Sent, size: int | None) -> None:
        if sent.is_finished or when == "in the middle":
            may_go_on.set()
            thread.join(END_S)

    with FileSource(path, len(HEADER)) as source:
        newer = client.send(upload, "readings", source, on_sent=let_go)
    [told] = older
    assert says in str(told)
    assert newer.place.position == len(data)
    assert server.lines(upload) == in_file(upload, data)


# What is in the file


@pytest.mark.part("kills")
@pytest.mark.parametrize(("length", "skipped"), [(LINE_BYTES + 1, ()), (3 << 20, (5,))])  # the first fits in a chunk
@pytest.mark.parametrize("zip", [False, True])
def test_a_line_that_is_too_long_becomes_a_case_and_the_rest_goes_on(
    length: int, skipped: tuple[int, ...], zip: bool, server: Gateway, proxy: CuttingProxy, tmp_path: Path
) -> None:
    before, after = readings(3), readings(4)
    data = before + b"x" * length + b"\n" + after
    path = csv_file(tmp_path, data)
    client = through(proxy, server)
    upload = client.open("readings", [NewSender("readings", "readings", "csv", tuple(COLUMNS), 2)]).id
    proxy.lose_answer(b"/skip")
    with FileSource(path, len(HEADER)) as source:
        sent = client.send(upload, "readings", source, zip=zip)
    assert sent.skipped == skipped
    assert sent.place.refused == 1
    lines = server.lines(upload)
    assert [number for number, _ in lines] == list(range(2, 10))
    good = [document for number, document in lines if number != 5]
    assert good == [document for _, document in expected(upload, before) + expected(upload, after)]
    [refused] = [value for number, value in lines if number == 5]
    assert refused[1]["line"] == 5
    assert refused[2].startswith("x" * 100)
    assert len(refused[2]) <= 4000


@pytest.mark.part("kills")
def test_a_file_that_was_changed_is_refused(server: Gateway, proxy: CuttingProxy, tmp_path: Path) -> None:
    data = readings(20_000)
    path = csv_file(tmp_path, data)

    class Enough(Exception):
        pass

    def stop(sent: Sent, size: int | None) -> None:
        if sent.place.position:
            raise Enough

    with pytest.raises(Enough):
        uploaded(through(proxy, server), path, stop)
    path.write_bytes(HEADER + data.replace(b"s-1,1,1.5", b"s-1,9,1.5", 1))
    with pytest.raises(SourceChanged):
        uploaded(through(proxy, server), path)
    path.write_bytes(HEADER + data)
    done = uploaded(through(proxy, server), path)
    assert server.lines(done.upload) == in_file(done.upload, data)
    path.write_bytes(HEADER + data.replace(b"s-1,1,1.5", b"s-1,9,1.5", 1))
    with pytest.raises(SourceChanged):
        uploaded(through(proxy, server), path)


def test_an_upload_that_was_aborted_says_so(server: Gateway, proxy: CuttingProxy, tmp_path: Path) -> None:
    client = through(proxy, server)
    upload = client.open("readings", [NewSender("readings", "readings", "csv", tuple(COLUMNS))]).id
    client.abort(upload, "not wanted")
    path = csv_file(tmp_path, readings(3))
    with FileSource(path, len(HEADER)) as source, pytest.raises(GatewayRefused, match="aborted"):
        client.send(upload, "readings", source)


@pytest.mark.part("kills")
def test_records_in_several_lines_and_no_lines_at_all(server: Gateway, proxy: CuttingProxy, tmp_path: Path) -> None:
    """A quoted field may hold ends of lines: a chunk that ends in it is not taken, and a longer one is sent."""
    texts = [f'"s\n{"x" * 9000}\n{n}",{n},1' for n in range(5)]
    path = csv_file(tmp_path, ("\n".join(texts) + "\n").encode())
    client = through(proxy, server)
    done = uploaded(client, path)
    values = [value["sensor"] for _, value in server.lines(done.upload)]
    assert values == [f"s\n{'x' * 9000}\n{n}" for n in range(5)]
    # The only end of a line in a chunk stands in quotes, and what follows is long.
    path = csv_file(tmp_path, b'"a\n' + b"y" * 10_000 + b'",1,1\n"b\n' + b"z" * 100_000 + b'",2,2\ns,3,3\n', "wide.csv")
    wide = uploaded(client, path)
    good = [value for _, value in server.lines(wide.upload) if isinstance(value, dict)]
    assert [value["at"] for value in good] == [1, 3]
    empty = uploaded(client, csv_file(tmp_path, b"", "empty.csv"))
    assert server.lines(empty.upload) == []
    [found] = server.runtime.gateway.status(empty.upload, owner="ada").senders
    assert found.state == "finished"


# As a process


@contextlib.contextmanager
def sending(server: Gateway, port: int, *words: object, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    variables = {**os.environ, "TOWPATH_KEY": server.key, "TOWPATH_SERVER": f"http://127.0.0.1:{port}"}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": variables, **options}
    with sigint():
        process = subprocess.Popen([*TOWPATH, "send", *map(str, words)], **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.part("kills")
def test_standard_input_survives_a_broken_way(server: Gateway, proxy: CuttingProxy) -> None:
    data = readings(30_000)
    half = data.index(b"\n", len(data) // 2) + 10  # in the middle of a line
    words = ("readings", "-", "--format", "csv", "--json")
    before = newest(server)
    with sending(server, proxy.port, *words, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(HEADER + data[:half])
        process.stdin.flush()
        wait_until(lambda: newest(server) != before and position(server) > 0, END_S, "something was sent")
        proxy.cut_all()
        process.stdin.write(data[half:].rstrip(b"\n"))
        out, err = process.communicate(timeout=END_S)
    assert process.returncode == 0, err
    done = json.loads(out)
    assert (done["state"], done["senders"][0]["lines"]) == (None, 30_000)
    assert server.lines(done["upload"]) == in_file(done["upload"], data)


def newest(server: Gateway) -> str | None:
    """The upload that was opened last; other tests have theirs at the same server."""
    found = server.runtime.gateway.list(limit=1)
    return found[0].id if found else None


def position(server: Gateway) -> int:
    """Of the newest upload."""
    return server.runtime.gateway.status(newest(server) or "", owner=None).senders[0].position


@pytest.mark.part("kills")
def test_ctrl_c_leaves_a_state_with_which_the_same_command_goes_on(
    server: Gateway, proxy: CuttingProxy, tmp_path: Path
) -> None:
    data = readings(20_000)
    path = csv_file(tmp_path, data)
    right = proxy.target_port
    proxy.target_port = 1  # nobody is there
    with sending(server, proxy.port, "readings", path) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert b"trying again" in said
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=END_S)
    assert (process.returncode, out) == (130, b"")
    assert err.splitlines()[-1] == b"stopped; the same command goes on"
    assert server.key.encode() not in err + said
    state = json.loads((tmp_path / "readings.csv.upload.json").read_text())
    proxy.target_port = right
    with sending(server, proxy.port, "readings", path, "--json") as process:
        out, err = process.communicate(timeout=END_S)
    assert process.returncode == 0, err
    assert json.loads(out)["upload"] == state["upload"]
    assert server.lines(state["upload"]) == in_file(state["upload"], data)


def _read_terminal(number: int) -> str:
    """All that is still to be read. A terminal whose other end is closed says EIO in place of an end."""
    shown = b""
    with contextlib.suppress(OSError):
        while piece := os.read(number, 1 << 16):
            shown += piece
    os.close(number)
    return shown.decode(errors="replace")


def test_a_terminal_sees_a_bar_for_each_sender(server: Gateway, proxy: CuttingProxy, tmp_path: Path) -> None:
    path = csv_file(tmp_path, readings(20_000))
    ours, theirs = pty.openpty()
    with sending(server, proxy.port, "readings", path, stderr=theirs) as process:
        os.close(theirs)
        out = process.communicate(timeout=END_S)[0]
    shown = _read_terminal(ours)
    assert process.returncode == 0
    assert b"20,000 lines" in out
    assert "readings" in shown
    assert "KiB" in shown
